#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/cudagraph/verify/verify_graphs.h"

namespace reprise::api {

/// The milliseconds that captures may add to each step on average while requests run.
inline constexpr double kDefaultCaptureBudgetMs = 5;

/// A change of how a running engine uses graphs. Members without a value leave the engine as it is.
struct GraphChange {
  /// Some of cudagraph_mode, cudagraph_capture_sizes and max_cudagraph_capture_size, as
  /// config::parse_compilation_config reads them. null: the default.
  Json compilation = Json::object();
  std::optional<double> shadow_check_rate;
  std::optional<cudagraph::VerifyGraphs> verify_graphs;
  /// Keys as cudagraph::find_graph_key reads them; "draft:" before a key of the draft model.
  std::vector<std::string> quarantine;
  std::vector<std::string> release;
  double capture_budget_ms = kDefaultCaptureBudgetMs;

  [[nodiscard]] bool only_quarantines() const noexcept {
    return compilation.empty() && !shadow_check_rate && !verify_graphs && release.empty();
  }
};

/// Reads the fields of POST /v1/graphs. \throws InvalidArgument that names the field: an unknown
/// one, one that cannot change while the engine runs, a value of the wrong type or range
[[nodiscard]] GraphChange parse_graph_change(const Json& json);

/// Whether parse_graph_change() has a field for this field of the compilation config.
[[nodiscard]] bool is_changeable_compilation_field(std::string_view name) noexcept;

}  // namespace reprise::api
