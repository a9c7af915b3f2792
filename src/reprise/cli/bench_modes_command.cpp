#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "reprise/api/llm.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/base/error.h"
#include "reprise/bench/offline_charts.h"
#include "reprise/cli/bench_commands.h"
#include "reprise/cli/compilation_text.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/plot_option.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/progress_line.h"
#include "reprise/cli/result_file.h"
#include "reprise/cudagraph/dispatch_ledger.h"
#include "reprise/runner/model_runner.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::cli {
namespace {

using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;

constexpr std::array kAllModes = {CudagraphMode::NONE,
                                  CudagraphMode::PIECEWISE,
                                  CudagraphMode::FULL,
                                  CudagraphMode::FULL_DECODE_ONLY,
                                  CudagraphMode::FULL_AND_PIECEWISE};

struct BenchArguments {
  // Every round runs the same prompts, so prefix caching would skip the work that is measured.
  api::EngineArgs engine{.enable_prefix_caching = false};
  int32_t batch_size = 1;
  int32_t input_len = 32;
  int32_t output_len = 128;
  int32_t num_iters = 9;
  int32_t num_warmups = 1;
  std::vector<CudagraphMode> modes;
  bool json = false;
  std::string plot;
};

OptionTable make_table(BenchArguments& arguments) {
  OptionTable table(
      "reprise bench modes MODEL [options]",
      "Runs the same prompts in every cudagraph mode, rounds interleaved so that a noisy "
      "machine disturbs all alike, and compares medians.");
  table.add_integer("batch-size", kLoad, "Prompts per round.", arguments.batch_size);
  table.add_integer("input-len", kLoad, "Tokens per prompt.", arguments.input_len);
  table.add_integer("output-len", kLoad, "Tokens per answer.", arguments.output_len);
  table.add_integer("num-iters", kLoad, "Measured rounds per mode.", arguments.num_iters);
  table.add_integer("num-iters-warmup", kLoad, "Rounds before measuring.", arguments.num_warmups);
  table.add({.name = "modes",
             .group = kLoad,
             .value_name = "A,B",
             .help = "Measure only these modes.",
             .default_text = "all five",
             .apply = [&arguments](std::string_view value) {
               while (!value.empty()) {
                 const size_t comma = std::min(value.find(','), value.size());
                 arguments.modes.push_back(cudagraph::parse_cudagraph_mode(value.substr(0, comma)));
                 value.remove_prefix(std::min(comma + 1, value.size()));
               }
             }});
  table.add_switch("json", "Output", "One JSON object with every round.", arguments.json);
  add_plot_option(table, "Write a page with each round of each mode.", arguments.plot);
  return table;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// One engine per mode. All engines exist at once so that rounds can alternate.
struct Contender {
  CudagraphMode mode;
  std::unique_ptr<api::LLM> llm;
  std::vector<double> tokens_per_second;
  std::vector<double> ttft_ms;
  std::vector<double> tpot_ms;
};

std::vector<Contender> load_contenders(const BenchArguments& arguments) {
  std::vector<Contender> contenders;
  for (CudagraphMode mode : arguments.modes) {
    api::EngineArgs engine = arguments.engine;
    engine.compilation_config["cudagraph_mode"] = std::string(to_string(mode));
    contenders.push_back({.mode = mode, .llm = std::make_unique<api::LLM>(engine)});
  }
  return contenders;
}

std::vector<std::vector<int32_t>> make_prompts(const BenchArguments& arguments,
                                               int32_t vocab_size) {
  // A fixed pseudo-random sequence gives the same prompts for every mode and on every machine.
  uint64_t state = 0x9e3779b97f4a7c15ULL;
  std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(arguments.batch_size));
  for (auto& prompt : prompts) {
    for (int32_t i = 0; i < arguments.input_len; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      prompt.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab_size)));
    }
  }
  return prompts;
}

void run_round(Contender& contender,
               const std::vector<std::vector<int32_t>>& prompts,
               const sampling::SamplingParams& params,
               bool measured) {
  const std::vector<api::RequestOutput> results =
      contender.llm->generate_token_ids(prompts, params);
  require_complete(results);
  if (!measured) return;
  double seconds = 0;
  double tokens = 0;
  double ttft = 0;
  double tpot = 0;
  for (const api::RequestOutput& result : results) {
    seconds = std::max(seconds, result.metrics.latency);
    tokens += result.metrics.num_output_tokens;
    ttft += result.metrics.time_to_first_token;
    tpot += result.metrics.time_per_output_token();
  }
  const auto count = static_cast<double>(results.size());
  contender.tokens_per_second.push_back(tokens / seconds);
  contender.ttft_ms.push_back(ttft / count * 1e3);
  contender.tpot_ms.push_back(tpot / count * 1e3);
}

std::string steps_text(const cudagraph::DispatchLedger& ledger) {
  return fmt::format("{}/{}/{}",
                     ledger.steps(CudagraphRuntimeMode::FULL),
                     ledger.steps(CudagraphRuntimeMode::PIECEWISE),
                     ledger.steps(CudagraphRuntimeMode::NONE));
}

void print_table(const std::vector<Contender>& contenders, const BenchArguments& arguments) {
  const api::StartupReport& machine = contenders.front().llm->startup_report();
  fmt::print("batch {} x ({} prompt + {} output tokens), {} rounds per mode, interleaved; {}, {}\n",
             arguments.batch_size,
             arguments.input_len,
             arguments.output_len,
             arguments.num_iters,
             machine.dtype,
             machine.cpu_isa);
  fmt::print("{}\n{}\n", compilation_line(machine), compilation_details(machine.compilation));
  fmt::print("{:<19} {:>10} {:>15} {:>8} {:>8} {:>7} {:>17} {:>5} {:>9} {:>9}  {}\n",
             "cudagraph_mode",
             "tok/s",
             "min..max",
             "TPOT ms",
             "TTFT ms",
             "vs NONE",
             "launches/decode",
             "keys",
             "capture s",
             "memory",
             "steps FULL/PIECEWISE/NONE");
  const auto none = std::find_if(contenders.begin(), contenders.end(), [](const Contender& c) {
    return c.mode == CudagraphMode::NONE;
  });
  for (const Contender& contender : contenders) {
    const double speed = median(contender.tokens_per_second);
    const auto [low, high] =
        std::minmax_element(contender.tokens_per_second.begin(), contender.tokens_per_second.end());
    const api::StartupReport& report = contender.llm->startup_report();
    const runner::StepLaunches launches = contender.llm->loaded().runner->last_decode_launches();
    fmt::print("{:<19} {:>10.1f} {:>15} {:>8.3f} {:>8.2f} {:>7} {:>17} {:>5} {:>9.3f} {:>9}  {}\n",
               to_string(contender.mode),
               speed,
               fmt::format("{:.0f}..{:.0f}", *low, *high),
               median(contender.tpot_ms),
               median(contender.ttft_ms),
               none == contenders.end()
                   ? "-"
                   : fmt::format("{:.2f}x", speed / median(none->tokens_per_second)),
               fmt::format("{} ({} graphs)", launches.total(), launches.graphs),
               report.capture.num_captured(),
               report.capture.seconds,
               format_bytes(report.graph_bytes),
               steps_text(contender.llm->ledger()));
  }
}

Json to_json(const std::vector<Contender>& contenders, const BenchArguments& arguments) {
  const api::StartupReport& machine = contenders.front().llm->startup_report();
  Json document = {{"model", arguments.engine.model.filename().string()},
                   {"device", machine.device},
                   {"cpu_isa", machine.cpu_isa},
                   {"dtype", machine.dtype},
                   {"batch_size", arguments.batch_size},
                   {"input_len", arguments.input_len},
                   {"output_len", arguments.output_len},
                   {"num_iters", arguments.num_iters},
                   {"modes", Json::object()}};
  for (const Contender& contender : contenders) {
    const api::StartupReport& report = contender.llm->startup_report();
    const runner::StepLaunches launches = contender.llm->loaded().runner->last_decode_launches();
    document["modes"][std::string(to_string(contender.mode))] = {
        {"resolved", to_string(report.resolved.mode)},
        {"tokens_per_second", contender.tokens_per_second},
        {"median_tokens_per_second", median(contender.tokens_per_second)},
        {"median_tpot_ms", median(contender.tpot_ms)},
        {"median_ttft_ms", median(contender.ttft_ms)},
        {"launches_per_decode_step", launches.total()},
        {"graphs_per_decode_step", launches.graphs},
        {"keys_captured", report.capture.num_captured()},
        {"capture_seconds", report.capture.seconds},
        {"graph_bytes", report.graph_bytes},
        {"compilation", compilation_to_json(report)}};
  }
  return document;
}

void measure(std::vector<Contender>& contenders, const BenchArguments& arguments) {
  const auto prompts = make_prompts(arguments, contenders.front().llm->tokenizer().vocab_size());
  sampling::SamplingParams params;
  params.temperature = 0;
  params.ignore_eos = true;
  params.max_tokens = arguments.output_len;
  ProgressLine progress("Rounds");
  const auto num_rounds =
      static_cast<uint64_t>(arguments.num_warmups) + static_cast<uint64_t>(arguments.num_iters);
  uint64_t num_done = 0;
  for (int32_t round = -arguments.num_warmups; round < arguments.num_iters; ++round) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      // The first mode of a round rotates, so that no mode always runs after the same other mode.
      const size_t turn =
          (i + static_cast<size_t>(round + arguments.num_warmups)) % contenders.size();
      run_round(contenders[turn], prompts, params, round >= 0);
      progress.update(++num_done, num_rounds * contenders.size());
    }
  }
}

void write_rounds_plot(const std::vector<Contender>& contenders, const BenchArguments& arguments) {
  std::vector<bench::Rounds> rounds;
  for (const Contender& contender : contenders) {
    rounds.push_back({.name = std::string(to_string(contender.mode)),
                      .tokens_per_second = contender.tokens_per_second,
                      .tpot_ms = contender.tpot_ms,
                      .ttft_ms = contender.ttft_ms});
  }
  write_plot(arguments.plot,
             fmt::format("{}: cudagraph modes", arguments.engine.model.filename().string()),
             fmt::format("batch {} x ({} prompt + {} output tokens), rounds interleaved",
                         arguments.batch_size,
                         arguments.input_len,
                         arguments.output_len),
             bench::rounds_charts(rounds));
}

}  // namespace

int run_bench_modes(std::span<const std::string> raw_arguments) {
  BenchArguments arguments;
  OptionTable table = make_table(arguments);
  add_engine_options(table, arguments.engine);
  if (!parse_model_command(table, raw_arguments, "bench modes", arguments.engine.model)) return 0;
  require_writable("--plot", arguments.plot);
  for (const auto& [name, value] : {std::pair{"--batch-size", arguments.batch_size},
                                    std::pair{"--input-len", arguments.input_len},
                                    std::pair{"--output-len", arguments.output_len},
                                    std::pair{"--num-iters", arguments.num_iters}}) {
    if (value < 1)
      throw InvalidArgument(fmt::format("{}: {} is not a positive number", name, value));
  }
  if (arguments.modes.empty()) arguments.modes.assign(kAllModes.begin(), kAllModes.end());

  std::vector<Contender> contenders = load_contenders(arguments);
  measure(contenders, arguments);
  write_rounds_plot(contenders, arguments);
  if (arguments.json) {
    fmt::print("{}\n", to_json(contenders, arguments).dump(2));
  } else {
    print_table(contenders, arguments);
  }
  return 0;
}

}  // namespace reprise::cli
