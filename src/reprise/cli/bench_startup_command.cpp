#include <fmt/format.h>

#include <array>

#include "reprise/api/llm.h"
#include "reprise/base/error.h"
#include "reprise/bench/statistics.h"
#include "reprise/cli/bench_commands.h"
#include "reprise/cli/child_process.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/result_file.h"

namespace reprise::cli {
namespace {

struct Part {
  const char* key;    // in a child's report
  const char* name;   // in the result's members
  const char* title;  // the text that vLLM prints
};
constexpr std::array kParts = {Part{"total", "startup", "Startup time"},
                               Part{"compilation", "compilation", "Compilation time"},
                               Part{"weights", "weights", "Weight loading time"},
                               Part{"tokenizer", "tokenizer", "Tokenizer loading time"},
                               Part{"capture", "capture", "Graph capture time"}};

/// Prints the times of one start, in seconds; runs in a child process.
int report_one_start(const api::EngineArgs& args) {
  const api::LLM llm(args);
  const api::StartupReport& report = llm.startup_report();
  const Json json = {{"total", report.total_seconds},
                     {"compilation", report.compile_seconds},
                     {"weights", report.weights_seconds},
                     {"tokenizer", report.tokenizer_seconds},
                     {"capture", report.capture.seconds}};
  fmt::print("{}\n", json.dump());
  return 0;
}

Json start_once(std::vector<std::string> arguments, const std::filesystem::path& folder) {
  arguments.insert(arguments.begin(), {"bench", "startup"});
  arguments.emplace_back("--one-start");
  ChildProcess child(arguments, folder / "out", folder / "err");
  const int code = child.wait();
  if (code != 0) {
    throw Error(
        fmt::format("a start failed with exit code {}: {}", code, read_text(folder / "err")));
  }
  return parse_json(read_text(folder / "out"), "a start's report");
}

void print_phase(std::string_view title,
                 const char* phase,
                 const std::vector<Json>& starts,
                 Json& result) {
  fmt::print("\n{}:\n", title);
  std::string percentile_lines;
  for (const Part& part : kParts) {
    std::vector<double> seconds;
    for (const Json& start : starts) seconds.push_back(start[part.key]);
    std::string name = part.title;
    name[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(name[0])));
    fmt::print("Avg {}: {:.3f} seconds\n", name, bench::mean(seconds));
    percentile_lines += fmt::format("{} percentiles:\n", part.title);
    Json percentiles = Json::object();
    for (const int percent : bench::kLatencyPercentiles) {
      percentiles[std::to_string(percent)] = bench::percentile(seconds, percent);
      percentile_lines +=
          fmt::format("  {}%: {:.3f} seconds\n", percent, bench::percentile(seconds, percent));
    }
    result[fmt::format("avg_{}_{}_time", phase, part.name)] = bench::mean(seconds);
    result[fmt::format("{}_{}_times", phase, part.name)] = seconds;
    result[fmt::format("{}_{}_percentiles", phase, part.name)] = percentiles;
  }
  fmt::print("{}", percentile_lines);
}

}  // namespace

int run_bench_startup(std::span<const std::string> raw_arguments) {
  api::EngineArgs engine;
  int32_t num_cold = 3;
  int32_t num_warmups = 1;
  int32_t num_warm = 3;
  bool one_start = false;
  std::string output_json;
  OptionTable table("reprise bench startup MODEL [options]",
                    "Measures how long an engine takes to be ready, each time in a process of its "
                    "own: cold with an empty compile cache, then warm.");
  table.add_integer("num-iters-cold", kLoad, "Cold starts.", num_cold);
  table.add_integer("num-iters-warmup", kLoad, "Starts that fill the cache.", num_warmups);
  table.add_integer("num-iters-warm", kLoad, "Warm starts.", num_warm);
  table.add_switch(
      "one-start", kLoad, "Start once in this process, and print the times as JSON.", one_start);
  table.add_text("output-json", kResults, "FILE", "Write a JSON file of results.", output_json);
  add_engine_options(table, engine);
  if (!parse_model_command(table, raw_arguments, "bench startup", engine.model)) return 0;
  require_writable("--output-json", output_json);
  if (one_start) return report_one_start(engine);
  if (num_cold < 1 || num_warm < 1 || num_warmups < 0) {
    throw InvalidArgument("--num-iters-cold and --num-iters-warm must be positive");
  }

  const TemporaryFolder folder;
  const std::vector<std::string> arguments(raw_arguments.begin(), raw_arguments.end());
  const auto with_cache = [&](const std::string& name) {
    std::vector<std::string> words = arguments;
    words.insert(words.end(), {"--compile-cache-root", (folder.path() / name).string()});
    return words;
  };
  std::vector<Json> cold;
  for (int32_t i = 0; i < num_cold; ++i) {
    print_log(LogLevel::info, "Cold start {} of {}\n", i + 1, num_cold);
    cold.push_back(start_once(with_cache(fmt::format("cold-{}", i)), folder.path()));
  }
  for (int32_t i = 0; i < num_warmups; ++i) {
    static_cast<void>(start_once(with_cache("warm"), folder.path()));
  }
  std::vector<Json> warm;
  for (int32_t i = 0; i < num_warm; ++i) {
    print_log(LogLevel::info, "Warm start {} of {}\n", i + 1, num_warm);
    warm.push_back(start_once(with_cache("warm"), folder.path()));
  }
  const std::string line(60, '=');
  fmt::print("{0}\nSTARTUP TIME BENCHMARK RESULTS\n{0}\n", line);
  Json result = Json::object();
  print_phase("COLD STARTUP", "cold", cold, result);
  print_phase("WARM STARTUP", "warm", warm, result);
  fmt::print("{}\n", line);
  write_result(output_json, result);
  return 0;
}

}  // namespace reprise::cli
