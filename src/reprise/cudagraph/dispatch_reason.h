#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise::cudagraph {

/// The reason why a batch got its runtime mode. The set is closed: the ledger counts each reason,
/// and its name is a metric label. The first group are graph hits, the second relaxed hits, the
/// third eager steps.
enum class DispatchReason : uint8_t {
  // graph hits
  full_uniform,      // FULL graph of uniform decode batches
  full_general,      // FULL graph that serves any batch
  piecewise,         // PIECEWISE graphs, the routine of this batch
  full_larger_size,  // FULL, but the tightest size was not dispatchable: the next larger size
  piecewise_larger_size,
  // relaxed hits: a batch whose routine is FULL runs PIECEWISE
  piecewise_cascade,
  piecewise_encoder_outputs,
  piecewise_more_logits_rows,
  piecewise_full_not_allowed,
  piecewise_no_decode_size,
  piecewise_full_retired,
  piecewise_full_not_captured,
  // eager steps
  not_initialised,
  mode_none,
  only_none_allowed,
  empty_batch,
  exceeds_largest_size,
  cascade,
  encoder_outputs,
  more_logits_rows,
  mode_not_allowed,
  lora_count_not_captured,
  mixed_batches_run_eager,
  no_decode_size,
  more_requests_than_captured,
  key_retired,
  key_not_captured,
};

inline constexpr size_t kNumDispatchReasons =
    static_cast<size_t>(DispatchReason::key_not_captured) + 1;

/// snake_case name, for metrics and JSON.
[[nodiscard]] std::string_view name(DispatchReason reason) noexcept;
/// One sentence for the log and the user.
[[nodiscard]] std::string_view to_string(DispatchReason reason) noexcept;

/// True for the reasons whose step replays a graph.
[[nodiscard]] constexpr bool is_graph_hit(DispatchReason reason) noexcept {
  return reason < DispatchReason::not_initialised;
}

}  // namespace reprise::cudagraph
