#include "reprise/cli/profiler_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "reprise/cli/config_field.h"
#include "reprise/cli/standard_streams.h"

namespace reprise::cli {
namespace {

/// Fields of how vLLM's profilers measure. Reprise always records steps in the same way, so these
/// fields have no effect.
constexpr auto kFieldsWithoutEffect = std::to_array<std::string_view>({
    "torch_profiler_with_stack",
    "torch_profiler_with_flops",
    "torch_profiler_with_memory",
    "torch_profiler_record_shapes",
    "torch_profiler_use_gzip",
    "torch_profiler_dump_cuda_time_total",
    "ignore_frontend",
    "warmup_iterations",
    "active_iterations",
    "wait_iterations",
});

void assign(server::ProfilerOptions& options, const ConfigField& field) {
  constexpr int64_t kMostSteps = int64_t{1} << 62;
  if (field.name == "profiler") {
    if (field.value.is_null() || field.value == "torch") return;
    field.refuse("\"torch\": traces in the form that PyTorch's profiler writes");
  }
  if (field.name == "torch_profiler_dir") {
    options.folder = field.text();
  } else if (field.name == "delay_iterations") {
    options.steps.delay_iterations = static_cast<uint64_t>(field.number(0, kMostSteps));
  } else if (field.name == "max_iterations") {
    options.steps.max_iterations = static_cast<uint64_t>(field.number(0, kMostSteps));
  } else if (std::ranges::find(kFieldsWithoutEffect, field.name) != kFieldsWithoutEffect.end()) {
    print_error("{}: {} has no effect here: every step is recorded in the same way\n",
                field.flag,
                field.name);
  } else {
    std::vector<std::string_view> known = {
        "profiler", "torch_profiler_dir", "delay_iterations", "max_iterations"};
    known.insert(known.end(), kFieldsWithoutEffect.begin(), kFieldsWithoutEffect.end());
    field.refuse_name(known);
  }
}

}  // namespace

void add_profiler_config(OptionTable& table, server::ProfilerOptions& options) {
  table.add(json_config_option(
      {.name = "profiler-config",
       .group = "Server",
       .help = "Where /stop_profile writes traces (torch_profiler_dir); delay_iterations and "
               "max_iterations choose steps.",
       .example = R"({"torch_profiler_dir": "traces"})"},
      [&options](const ConfigField& field) { assign(options, field); },
      [&options] {
        return Json{{"torch_profiler_dir", options.folder.string()},
                    {"delay_iterations", options.steps.delay_iterations},
                    {"max_iterations", options.steps.max_iterations}};
      }));
}

}  // namespace reprise::cli
