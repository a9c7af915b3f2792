#include "reprise/api/graphs/graph_change.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reprise/base/error.h"
#include "reprise/config/compilation_config.h"

namespace reprise::api {
namespace {

constexpr auto kCompilationFields = std::to_array<std::string_view>(
    {"cudagraph_mode", "cudagraph_capture_sizes", "max_cudagraph_capture_size"});
constexpr auto kOtherFields = std::to_array<std::string_view>(
    {"shadow_check_rate", "verify_graphs", "quarantine", "release", "capture_budget_ms"});
// Options that also decide about graphs, but cannot change because the engine is built with them.
constexpr auto kFixedOptions = std::to_array<std::string_view>({"attention_backend",
                                                                "block_size",
                                                                "compilation_config",
                                                                "data_parallel_size",
                                                                "dtype",
                                                                "enable_lora",
                                                                "enforce_eager",
                                                                "kv_cache_dtype",
                                                                "level",
                                                                "max_model_len",
                                                                "max_num_batched_tokens",
                                                                "max_num_seqs",
                                                                "optimization_level",
                                                                "quantization",
                                                                "speculative_config",
                                                                "strict_graphs",
                                                                "tensor_parallel_size"});
constexpr double kLargestBudgetMs = 60'000;

template <size_t size>
bool is_in(const std::array<std::string_view, size>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

[[noreturn]] void refuse_field(const std::string& name) {
  const std::string known =
      fmt::format("{}, {}", fmt::join(kCompilationFields, ", "), fmt::join(kOtherFields, ", "));
  const Json of_compilation = config::to_json(config::CompilationConfig{});
  if (is_in(kFixedOptions, name) || of_compilation.contains(name)) {
    throw InvalidArgument(fmt::format(
        "{}: cannot be changed while the engine runs; restart it with the new value. What can be "
        "changed: {}",
        name,
        known));
  }
  throw InvalidArgument(fmt::format("{}: is no field of this request; it takes {}", name, known));
}

double read_number(const Json& value, std::string_view name, double low, double high) {
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= low && number <= high)) {
    throw InvalidArgument(
        fmt::format("{}: expected a number from {} to {}, got {}", name, low, high, value.dump()));
  }
  return number;
}

std::vector<std::string> read_names(const Json& value, std::string_view name) {
  const Json list = value.is_string() ? Json::array({value}) : value;
  const bool are_names = list.is_array() && std::ranges::all_of(list, [](const Json& item) {
                           return item.is_string();
                         });
  if (!are_names) {
    throw InvalidArgument(
        fmt::format("{}: expected the name of a graph, such as FULL:8, or a list of names, got {}",
                    name,
                    value.dump()));
  }
  return list.get<std::vector<std::string>>();
}

}  // namespace

bool is_changeable_compilation_field(std::string_view name) noexcept {
  return is_in(kCompilationFields, name);
}

GraphChange parse_graph_change(const Json& json) {
  if (!json.is_object()) {
    throw InvalidArgument(fmt::format("expected a JSON object, got {}", json.dump()));
  }
  GraphChange change;
  for (const auto& [name, value] : json.items()) {
    if (is_changeable_compilation_field(name)) {
      change.compilation[name] = value;
    } else if (name == "shadow_check_rate") {
      change.shadow_check_rate = read_number(value, name, 0, 1);
    } else if (name == "verify_graphs") {
      change.verify_graphs = cudagraph::parse_verify_graphs(
          name, value.is_string() ? value.get<std::string>() : value.dump());
    } else if (name == "quarantine") {
      change.quarantine = read_names(value, name);
    } else if (name == "release") {
      change.release = read_names(value, name);
    } else if (name == "capture_budget_ms") {
      change.capture_budget_ms = read_number(value, name, 0.01, kLargestBudgetMs);
    } else {
      refuse_field(name);
    }
  }
  // parse_compilation_config() checks the types and ranges of these fields.
  Json given = Json::object();
  for (const auto& [name, value] : change.compilation.items()) {
    if (!value.is_null()) given[name] = value;
  }
  (void)config::parse_compilation_config(given);
  return change;
}

}  // namespace reprise::api
