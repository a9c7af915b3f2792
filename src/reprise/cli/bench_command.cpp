#include <fmt/format.h>

#include <array>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/cli/bench_commands.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {
namespace {

struct Benchmark {
  std::string_view name;
  std::string_view help;
  int (*run)(std::span<const std::string>);
};

constexpr std::array kBenchmarks = {
    Benchmark{"modes", "Compare the five cudagraph modes.", run_bench_modes},
    Benchmark{"serve", "Send a load to any OpenAI server, like vllm bench serve.", run_bench_serve},
    Benchmark{"sweep",
              "Run a grid of servers and loads, and write one table and one page.",
              run_bench_sweep},
    Benchmark{"latency", "Measure how long one batch takes.", run_bench_latency},
    Benchmark{"throughput",
              "Measure requests and tokens per second when all requests come at once.",
              run_bench_throughput},
    Benchmark{"startup", "Measure cold and warm starts.", run_bench_startup},
};

}  // namespace

int run_bench(std::span<const std::string> arguments) {
  std::vector<std::string_view> names;
  for (const Benchmark& benchmark : kBenchmarks) {
    if (!arguments.empty() && arguments[0] == benchmark.name) {
      return benchmark.run(arguments.subspan(1));
    }
    names.push_back(benchmark.name);
  }
  if (arguments.empty() || OptionTable::asks_for_help(arguments)) {
    fmt::print("usage: reprise bench NAME [options]\n\n");
    for (const Benchmark& benchmark : kBenchmarks) {
      fmt::print("  {:<10} {}\n", benchmark.name, benchmark.help);
    }
    return arguments.empty() ? 2 : 0;
  }
  throw InvalidArgument(
      fmt::format("unknown benchmark '{}'{}", arguments[0], did_you_mean(arguments[0], names)));
}

}  // namespace reprise::cli
