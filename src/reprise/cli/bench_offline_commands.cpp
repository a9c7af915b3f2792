#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <utility>

#include "reprise/api/async_engine.h"
#include "reprise/api/llm.h"
#include "reprise/base/error.h"
#include "reprise/bench/offline_charts.h"
#include "reprise/bench/statistics.h"
#include "reprise/cli/bench_commands.h"
#include "reprise/cli/bench_options.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/plot_option.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/progress_line.h"
#include "reprise/cli/rank_session.h"
#include "reprise/cli/result_file.h"

namespace reprise::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void require_positive(const char* option, int32_t value) {
  if (value < 1)
    throw InvalidArgument(fmt::format("{}: {} is not a positive number", option, value));
}

std::vector<std::vector<int32_t>> random_prompts(uint64_t seed,
                                                 int32_t num_ids,
                                                 int32_t batch_size,
                                                 int32_t input_len) {
  bench::RandomSource random(seed);
  std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(batch_size));
  for (auto& prompt : prompts) {
    for (int32_t i = 0; i < input_len; ++i) {
      prompt.push_back(static_cast<int32_t>(random.integer(0, num_ids - 1)));
    }
  }
  return prompts;
}

sampling::SamplingParams full_length(int32_t num_tokens) {
  sampling::SamplingParams params;
  params.temperature = 1;
  params.ignore_eos = true;
  params.max_tokens = num_tokens;
  return params;
}

void warm_up(api::LLM& llm,
             std::span<const std::vector<int32_t>> prompts,
             const sampling::SamplingParams& params,
             int32_t num_batches) {
  print_log(LogLevel::info, "Warming up...\n");
  for (int32_t i = 0; i < num_batches; ++i) {
    require_complete(llm.generate_token_ids(prompts, params));
  }
}

/// One entry per batch, in seconds from the batch's beginning.
struct BatchLatencies {
  std::vector<double> whole;
  std::vector<double> first_token;  // until every answer has its first token
};

BatchLatencies measure_batches(api::LLM& llm,
                               std::span<const std::vector<int32_t>> prompts,
                               const sampling::SamplingParams& params,
                               int32_t num_batches) {
  BatchLatencies latencies;
  ProgressLine progress("Batches");
  for (int32_t i = 0; i < num_batches; ++i) {
    progress.update(static_cast<uint64_t>(i), static_cast<uint64_t>(num_batches));
    const Clock::time_point begin = Clock::now();
    const std::vector<api::RequestOutput> outputs = llm.generate_token_ids(prompts, params);
    latencies.whole.push_back(seconds_since(begin));
    require_complete(outputs);
    double first_token = 0;
    for (const api::RequestOutput& output : outputs) {
      first_token = std::max(first_token, output.metrics.time_to_first_token);
    }
    latencies.first_token.push_back(first_token);
  }
  return latencies;
}

/// Prints the mean and the percentiles; returns the percentiles.
Json print_latencies(const std::vector<double>& latencies) {
  Json percentiles = Json::object();
  fmt::print("Avg latency: {} seconds\n", bench::mean(latencies));
  for (const int percent : bench::kLatencyPercentiles) {
    const double value = bench::percentile(latencies, percent);
    percentiles[std::to_string(percent)] = value;
    fmt::print("{}% percentile latency: {} seconds\n", percent, value);
  }
  return percentiles;
}

}  // namespace

void write_result(const std::string& path, const Json& json) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::trunc);
  file << json.dump(4) << "\n";
  file.close();
  if (!file) throw Error(fmt::format("{}: the result cannot be written there", path));
}

int run_bench_latency(std::span<const std::string> raw_arguments) {
  // Every batch has the same prompts, so prefix caching would skip their work. vLLM disables it
  // too.
  api::EngineArgs engine{.enable_prefix_caching = false};
  int32_t input_len = 32;
  int32_t output_len = 128;
  int32_t batch_size = 8;
  int32_t num_warmups = 10;
  int32_t num_iters = 30;
  double temperature = 1;
  std::string output_json;
  std::string plot;
  OptionTable table("reprise bench latency MODEL [options]",
                    "Measures the latency of one batch, like vllm bench latency.");
  table.add_integer("input-len", kLoad, "Tokens per prompt.", input_len);
  table.add_integer("output-len", kLoad, "Tokens per answer.", output_len);
  table.add_integer("batch-size", kLoad, "Prompts per batch.", batch_size);
  table.add_integer("num-iters-warmup", kLoad, "Batches before measuring.", num_warmups);
  table.add_integer("num-iters", kLoad, "Measured batches.", num_iters);
  add_number(table, "temperature", kLoad, "Sampling temperature; 0 = greedy.", temperature);
  table.add_text("output-json", kResults, "FILE", "Write a JSON file of results.", output_json);
  add_plot_option(table, "Write a page with the latency of each batch.", plot);
  add_engine_options(table, engine);
  if (!parse_model_command(table, raw_arguments, "bench latency", engine.model)) return 0;
  require_writable("--output-json", output_json);
  require_writable("--plot", plot);
  require_positive("--input-len", input_len);
  require_positive("--output-len", output_len);
  require_positive("--batch-size", batch_size);
  require_positive("--num-iters", num_iters);

  RankSession ranks(engine);
  if (ranks.is_elsewhere()) return ranks.run(engine);
  StartupProgress progress(false);
  api::LLM llm(engine, progress.observer());
  print_warnings(llm.startup_report());
  const std::vector<std::vector<int32_t>> prompts = random_prompts(
      engine.seed, std::min(llm.tokenizer().vocab_size(), 10000), batch_size, input_len);
  sampling::SamplingParams params = full_length(output_len);
  params.temperature = static_cast<float>(temperature);
  warm_up(llm, prompts, params, num_warmups);
  const auto [latencies, first_token_latencies] = measure_batches(llm, prompts, params, num_iters);
  const Json percentiles = print_latencies(latencies);
  write_result(output_json,
               {{"avg_latency", bench::mean(latencies)},
                {"std_latency", bench::standard_deviation(latencies)},
                {"latencies", latencies},
                // This key is an addition to vLLM's.
                {"first_token_latencies", first_token_latencies},
                {"percentiles", percentiles}});
  const std::string title =
      fmt::format("latency of {} x ({} + {} tokens)", batch_size, input_len, output_len);
  write_plot(plot, title, engine.model, bench::latency_charts(latencies, first_token_latencies));
  return 0;
}

namespace {

/// State that the callbacks of one run share; callbacks may outlive a caller that left by an
/// exception.
struct Countdown {
  std::mutex mutex;
  std::condition_variable is_done;
  size_t num_left = 0;
  std::string failure;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  std::vector<std::pair<double, int64_t>> ended;  // seconds since the start, and output tokens
};

struct Throughput {
  double seconds = 0;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  std::vector<std::pair<double, int64_t>> ended;
};

/// Shows how many requests have ended until all have. Returns with the lock held.
void wait_for_all(Countdown& countdown, std::unique_lock<std::mutex>& lock, size_t num_requests) {
  constexpr std::chrono::milliseconds kBetweenLooks{100};
  ProgressLine progress("Requests");
  while (!countdown.is_done.wait_for(
      lock, kBetweenLooks, [&countdown] { return countdown.num_left == 0; })) {
    const size_t num_done = num_requests - countdown.num_left;
    lock.unlock();  // the engine's thread does not wait for the terminal
    progress.update(num_done, num_requests);
    lock.lock();
  }
}

/// Submits all requests to the engine at once and waits for them. \throws Error with the reason of
/// the first request that failed
Throughput run_all(api::AsyncEngine& engine, const std::vector<bench::SampleRequest>& requests) {
  std::vector<std::vector<int32_t>> prompts;
  for (const bench::SampleRequest& request : requests) {
    prompts.push_back(engine.tokenizer().encode(request.prompt));
  }
  const auto countdown = std::make_shared<Countdown>();
  countdown->num_left = requests.size();
  const Clock::time_point begin = Clock::now();
  for (size_t i = 0; i < requests.size(); ++i) {
    engine.submit(std::move(prompts[i]),
                  full_length(static_cast<int32_t>(requests[i].output_len)),
                  [countdown, begin](const engine::OutputDelta& output) {
                    if (!output.finished) return;
                    const std::lock_guard lock(countdown->mutex);
                    countdown->ended.emplace_back(seconds_since(begin), output.num_output_tokens);
                    if (countdown->failure.empty()) countdown->failure = output.error;
                    countdown->prompt_tokens += output.num_prompt_tokens;
                    countdown->output_tokens += output.num_output_tokens;
                    if (--countdown->num_left == 0) countdown->is_done.notify_one();
                  });
  }
  std::unique_lock lock(countdown->mutex);
  wait_for_all(*countdown, lock, requests.size());
  const double seconds = seconds_since(begin);
  if (!countdown->failure.empty()) {
    throw Error(fmt::format("a request failed: {}", countdown->failure));
  }
  return {seconds, countdown->prompt_tokens, countdown->output_tokens, countdown->ended};
}

}  // namespace

int run_bench_throughput(std::span<const std::string> raw_arguments) {
  api::EngineArgs engine_args;
  bench::DatasetOptions dataset;
  std::string output_json;
  std::string plot;
  bool async_engine = true;
  OptionTable table("reprise bench throughput MODEL [options]",
                    "Measures how many requests and tokens per second an engine processes when all "
                    "requests come at once, like vllm bench throughput.");
  add_dataset_options(table, dataset);
  table.add_text("output-json", kResults, "FILE", "Write a JSON file of results.", output_json);
  add_plot_option(table, "Write a page with the requests as they ended.", plot);
  table.add_switch("async-engine", kLoad, "No effect: always so here.", async_engine);
  add_engine_options(table, engine_args);
  if (!parse_model_command(table, raw_arguments, "bench throughput", engine_args.model)) return 0;
  require_writable("--output-json", output_json);
  require_writable("--plot", plot);

  RankSession ranks(engine_args);
  if (ranks.is_elsewhere()) return ranks.run(engine_args);
  const PromptMaker maker(engine_args.tokenizer.value_or(engine_args.model));
  bench::RandomSource random(engine_args.seed);
  const std::vector<bench::SampleRequest> requests =
      make_requests(dataset, maker.tools(false), random);
  StartupProgress progress(false);
  api::AsyncEngine engine(engine_args, progress.observer());
  print_warnings(engine.startup_report());
  const auto [seconds, prompt_tokens, output_tokens, ended] = run_all(engine, requests);
  const api::EngineStats stats = engine.stats();
  Json step_seconds = Json::object();
  for (size_t i = 0; i < runner::kNumStepPhases; ++i) {
    step_seconds[runner::kStepPhaseNames[i]] = stats.step_times.seconds[i];
  }
  const auto count = static_cast<double>(requests.size());
  const auto total = static_cast<double>(prompt_tokens + output_tokens);
  fmt::print("Throughput: {:.2f} requests/s, {:.2f} total tokens/s, {:.2f} output tokens/s\n",
             count / seconds,
             total / seconds,
             static_cast<double>(output_tokens) / seconds);
  fmt::print(
      "Total num prompt tokens:  {}\nTotal num output tokens:  {}\n", prompt_tokens, output_tokens);
  write_result(output_json,
               {{"elapsed_time", seconds},
                {"num_requests", requests.size()},
                {"total_num_tokens", prompt_tokens + output_tokens},
                {"requests_per_second", count / seconds},
                {"tokens_per_second", total / seconds},
                // These keys are additions to vLLM's.
                {"num_steps", stats.num_steps},
                {"step_seconds", step_seconds}});
  write_plot(
      plot,
      fmt::format(
          "{}: {} requests at once", engine_args.model.filename().string(), requests.size()),
      fmt::format("{:.2f} requests/s, {:.2f} total tokens/s", count / seconds, total / seconds),
      bench::throughput_charts(ended));
  return 0;
}

}  // namespace reprise::cli
