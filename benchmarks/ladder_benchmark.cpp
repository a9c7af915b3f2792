// Compares the capture sizes of the rules reprise and measured: what their graphs cost at the start
// and in memory, and what a step of each batch size costs with them. Both engines exist at once and
// take turns. Prints text for people.
//
//   ladder_benchmark MODEL [TOKENIZER [MAX_NUM_SEQS [MAX_NUM_BATCHED_TOKENS [ROUNDS]]]]
//
// Without weights in MODEL they are random. Steps are dummy batches: every request has a context as
// long as its query, so attention costs less than in real steps.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/api/llm.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/runner/model_runner.h"

namespace {

using namespace reprise;
using cudagraph::BatchFacts;

/// The arguments of the command line; numbers that are missing keep their defaults.
struct Arguments {
  std::filesystem::path model;
  std::filesystem::path tokenizer;
  int max_num_seqs = 64;
  int max_num_batched_tokens = 512;
  int rounds = 9;
};

void read_number(std::span<char*> words, size_t index, int& number) {
  if (index >= words.size()) return;
  const std::string_view text = words[index];
  std::from_chars(text.data(), text.data() + text.size(), number);
}

struct Contender {
  std::string rule;
  std::unique_ptr<api::LLM> llm;
  std::vector<std::vector<double>> microseconds = {};  // [batch][round]

  [[nodiscard]] runner::ModelRunner& runner() const { return *llm->loaded().runner; }
};

Contender load(const Arguments& arguments, const char* rule) {
  api::EngineArgs args;
  args.model = arguments.model;
  args.tokenizer = arguments.tokenizer;
  if (!std::filesystem::exists(arguments.model / "model.safetensors")) {
    args.load_format = api::LoadFormat::dummy;
  }
  args.max_model_len = 1024;
  args.max_num_seqs = arguments.max_num_seqs;
  args.max_num_batched_tokens = arguments.max_num_batched_tokens;
  args.kv_cache_memory_bytes = int64_t{256} << 20;
  args.compilation_config = {{"capture_size_rule", rule}};
  return {.rule = rule, .llm = std::make_unique<api::LLM>(args)};
}

void print_start(const Contender& contender) {
  const api::StartupReport& report = contender.llm->startup_report();
  fmt::print("{:<9} {:>4} graphs, captured in {:8.3f} s, {:8.2f} MiB of graphs; {}\n",
             contender.rule,
             report.capture.num_captured(),
             report.capture.seconds,
             static_cast<double>(report.graph_bytes) / (1 << 20),
             report.capture.ladder ? report.capture.ladder->describe() : "nothing was measured");
}

std::vector<BatchFacts> decode_batches(int most) {
  std::vector<BatchFacts> batches;
  for (int n = 1; n <= most; ++n) {
    batches.push_back(
        {.num_tokens = n, .num_reqs = n, .uniform = true, .query_len = 1, .num_logits = n});
  }
  return batches;
}

/// Every size up to 32, and some sixty more, of which few are capture sizes.
std::vector<BatchFacts> mixed_batches(int most_tokens, int most_reqs) {
  std::vector<BatchFacts> batches;
  for (int n = 1; n <= most_tokens; n += n < 32 ? 1 : std::max(1, most_tokens / 61)) {
    const int reqs = std::min(n, most_reqs);
    batches.push_back({.num_tokens = n, .num_reqs = reqs, .num_logits = reqs});
  }
  return batches;
}

void measure(std::span<Contender> contenders, const std::vector<BatchFacts>& batches, int rounds) {
  for (Contender& contender : contenders) contender.microseconds.assign(batches.size(), {});
  for (int round = -1; round < rounds; ++round) {
    for (size_t i = 0; i < batches.size(); ++i) {
      for (size_t k = 0; k < contenders.size(); ++k) {
        // The first one rotates, so that no rule always runs after the other one.
        Contender& turn = contenders[(k + static_cast<size_t>(round + 1)) % contenders.size()];
        const double time =
            turn.runner().time_dummy(batches[i], turn.runner().dispatcher().dispatch(batches[i]));
        if (round >= 0) turn.microseconds[i].push_back(time);
      }
    }
  }
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// The smallest time: other programs have disturbed it least.
double least(std::vector<double> values) { return *std::ranges::min_element(values); }

/// The mean over all batches with `first` to `last` tokens, in microseconds; 0 if there are none.
/// `of_rounds`: of the times of one batch.
double mean_of(const Contender& contender,
               const std::vector<BatchFacts>& batches,
               int first,
               int last,
               double (*of_rounds)(std::vector<double>)) {
  double sum = 0;
  int count = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    if (batches[i].num_tokens < first || batches[i].num_tokens > last) continue;
    sum += of_rounds(contender.microseconds[i]);
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

void print_steps(const char* title,
                 std::span<const Contender> contenders,
                 const std::vector<BatchFacts>& batches) {
  const int most = batches.back().num_tokens;
  fmt::print("\n{:<28}", title);
  for (const char* of_rounds : {"median", "least"}) {
    for (const Contender& contender : contenders) {
      fmt::print("{:>18}", fmt::format("{}, {}", contender.rule, of_rounds));
    }
    fmt::print("{:>8}", "ratio");
  }
  fmt::print("\n");
  for (const auto& [first, last] : {std::pair{1, 8},
                                    {9, 16},
                                    {17, 32},
                                    {33, 64},
                                    {65, 128},
                                    {129, 256},
                                    {257, 1 << 20},
                                    {1, 1 << 20}}) {
    if (first > most || mean_of(contenders.front(), batches, first, last, least) == 0) continue;
    fmt::print("{:<28}", fmt::format("mean of {} to {} tokens", first, std::min(last, most)));
    for (const auto of_rounds : {median, least}) {
      std::vector<double> means;
      for (const Contender& contender : contenders) {
        means.push_back(mean_of(contender, batches, first, last, of_rounds));
        fmt::print("{:15.1f} us", means.back());
      }
      fmt::print("{:8.3f}", means.back() / means.front());
    }
    fmt::print("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> words(argv, static_cast<size_t>(argc));
  if (words.size() < 2) {
    fmt::print(stderr,
               "usage: ladder_benchmark MODEL [TOKENIZER [MAX_NUM_SEQS [MAX_NUM_BATCHED_TOKENS "
               "[ROUNDS]]]]\n");
    return 2;
  }
  Arguments arguments{.model = words[1], .tokenizer = words[words.size() > 2 ? 2 : 1]};
  read_number(words, 3, arguments.max_num_seqs);
  read_number(words, 4, arguments.max_num_batched_tokens);
  read_number(words, 5, arguments.rounds);
  std::vector<Contender> contenders;
  for (const char* rule : {"reprise", "measured"}) contenders.push_back(load(arguments, rule));
  const api::StartupReport& machine = contenders.front().llm->startup_report();
  fmt::print(
      "{}; {}, {}; {} rounds\n", machine.device, machine.dtype, machine.cpu_isa, arguments.rounds);
  for (const Contender& contender : contenders) print_start(contender);
  const std::vector<BatchFacts> decodes = decode_batches(arguments.max_num_seqs);
  measure(contenders, decodes, arguments.rounds);
  print_steps("decode steps", contenders, decodes);
  const std::vector<BatchFacts> mixed =
      mixed_batches(arguments.max_num_batched_tokens, arguments.max_num_seqs);
  measure(contenders, mixed, arguments.rounds);
  print_steps("mixed steps", contenders, mixed);
  return 0;
}
