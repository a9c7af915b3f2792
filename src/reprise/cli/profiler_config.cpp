#include "reprise/cli/profiler_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/base/nearest_name.h"
#include "reprise/cli/log_environment.h"

namespace reprise::cli {
namespace {

constexpr std::string_view kOption = "--profiler-config";

/// Fields about how vLLM's profilers measure. Steps are always recorded in the same way here, so
/// these fields have no effect.
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

[[noreturn]] void refuse(std::string_view field, std::string_view expected, const Json& got) {
  throw InvalidArgument(fmt::format("{}: {} is {}, got {}", kOption, field, expected, got.dump()));
}

std::string read_text(std::string_view field, const Json& value) {
  if (!value.is_string()) refuse(field, "a text", value);
  return value.get<std::string>();
}

uint64_t read_count(std::string_view field, const Json& value) {
  if (!value.is_number_integer() || value < 0) refuse(field, "a number of steps, 0 or more", value);
  return value.get<uint64_t>();
}

void read_kind(std::string_view field, const Json& value) {
  if (value.is_null() || value == "torch") return;
  refuse(field, "\"torch\": traces in the form that PyTorch's profiler writes", value);
}

void assign(server::ProfilerOptions& options, std::string_view field, const Json& value) {
  if (field == "profiler") return read_kind(field, value);
  if (field == "torch_profiler_dir") {
    options.folder = read_text(field, value);
    return;
  }
  if (field == "delay_iterations") {
    options.steps.delay_iterations = read_count(field, value);
    return;
  }
  if (field == "max_iterations") {
    options.steps.max_iterations = read_count(field, value);
    return;
  }
  if (std::find(kFieldsWithoutEffect.begin(), kFieldsWithoutEffect.end(), field) !=
      kFieldsWithoutEffect.end()) {
    print_log(LogLevel::warning,
              "{}: {} has no effect here: every step is recorded in the same way\n",
              kOption,
              field);
    return;
  }
  std::vector<std::string_view> known = {
      "profiler", "torch_profiler_dir", "delay_iterations", "max_iterations"};
  known.insert(known.end(), kFieldsWithoutEffect.begin(), kFieldsWithoutEffect.end());
  throw InvalidArgument(
      fmt::format("{}: there is no field '{}'{}", kOption, field, did_you_mean(field, known)));
}

Json parse_value(std::string_view text) {
  const Json value = Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(text) : value;
}

}  // namespace

void add_profiler_config(OptionTable& table, server::ProfilerOptions& options) {
  table.add({.name = "profiler-config",
             .group = "Server",
             .value_name = "JSON",
             .help = "Where /stop_profile writes traces (torch_profiler_dir); delay_iterations and "
                     "max_iterations choose steps.",
             .apply =
                 [&options](std::string_view text) {
                   const Json document = parse_json(text, kOption);
                   if (!document.is_object()) {
                     throw InvalidArgument(
                         fmt::format("{}: expected a JSON object, got {}", kOption, text));
                   }
                   for (const auto& [field, value] : document.items())
                     assign(options, field, value);
                 },
             .apply_dotted =
                 [&options](std::string_view path, std::string_view value) {
                   assign(options, path, parse_value(value));
                 },
             .merged =
                 [&options] {
                   return Json{{"torch_profiler_dir", options.folder.string()},
                               {"delay_iterations", options.steps.delay_iterations},
                               {"max_iterations", options.steps.max_iterations}}
                       .dump();
                 },
             .example = R"({"torch_profiler_dir": "traces"})"});
}

}  // namespace reprise::cli
