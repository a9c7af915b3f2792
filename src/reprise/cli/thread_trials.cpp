#include "reprise/cli/thread_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "reprise/api/loading/engine_loader.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/kernels/tunable_products.h"
#include "reprise/runner/model_runner.h"

namespace reprise::cli {
namespace {

constexpr int kRuns = 15;
constexpr int32_t kPromptTokens = 256;

/// Other programs only add time, so the least time is that of the step.
double least_time(runner::ModelRunner& runner, const cudagraph::BatchFacts& batch) {
  const cudagraph::Decision decision = runner.dispatcher().dispatch(batch);
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < kRuns; ++i) least = std::min(least, runner.time_dummy(batch, decision));
  return least;
}

ThreadTrial try_threads(api::EngineArgs args, int num_threads) {
  args.num_threads = num_threads;
  const std::unique_ptr<api::LoadedEngine> engine = api::load_engine(args);
  const int32_t prompt = std::min(kPromptTokens, args.max_num_batched_tokens);
  return {.num_threads = num_threads,
          .decode_us = least_time(
              *engine->runner,
              {.num_tokens = 1, .num_reqs = 1, .uniform = true, .query_len = 1, .num_logits = 1}),
          .prompt_us =
              least_time(*engine->runner, {.num_tokens = prompt, .num_reqs = 1, .num_logits = 1}),
          .prompt_tokens = prompt};
}

}  // namespace

std::vector<ThreadTrial> try_numbers_of_threads(const api::EngineArgs& args, int most_threads) {
  std::vector<ThreadTrial> trials;
  for (int threads = most_threads; threads >= 1; threads /= 2) {
    trials.push_back(try_threads(args, threads));
  }
  return trials;
}

std::string thread_trials_text(std::span<const ThreadTrial> trials) {
  const ThreadTrial& usual = trials.front();
  std::string text = fmt::format("threads  decode of 1 request, ms  prompt of {} tokens, ms\n",
                                 usual.prompt_tokens);
  const ThreadTrial* best = &usual;
  for (const ThreadTrial& trial : trials) {
    text += fmt::format("{:>7}  {:>23.3f}  {:>{}.3f}\n",
                        trial.num_threads,
                        trial.decode_us / 1e3,
                        trial.prompt_us / 1e3,
                        fmt::formatted_size("prompt of {} tokens, ms", usual.prompt_tokens));
    constexpr double kWorthIt = 1 - kernels::TunableProducts::kLeastGain;
    const bool loses_nothing =
        trial.decode_us <= usual.decode_us && trial.prompt_us <= usual.prompt_us;
    const bool gains = trial.decode_us <= kWorthIt * usual.decode_us ||
                       trial.prompt_us <= kWorthIt * usual.prompt_us;
    if (loses_nothing && gains && trial.decode_us < best->decode_us) best = &trial;
  }
  if (best == &usual) {
    return text + fmt::format(
                      "nothing to tune on this CPU: no number of threads below {} saves 3 %, and "
                      "each product has one kernel, by instruction set, layout and shape\n",
                      usual.num_threads);
  }
  return text + fmt::format(
                    "give --num-threads {}: steps take {:.1f} % (decode) and {:.1f} % (prompt) "
                    "less time\n",
                    best->num_threads,
                    100 * (1 - best->decode_us / usual.decode_us),
                    100 * (1 - best->prompt_us / usual.prompt_us));
}

}  // namespace reprise::cli
