#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise::cudagraph {

/// Why a batch got its runtime mode. The ledger counts each reason, and the metrics use its name as
/// a label, so every reason has an enumerator here.
enum class DispatchReason : uint8_t {
  // Graph hits: the batch runs in its routine.
  full_uniform,             // FULL graph for uniform decode batches
  full_general,             // FULL graph for any batch
  piecewise,                // PIECEWISE graphs, for a batch whose routine is PIECEWISE
  piecewise_ragged_drafts,  // the same, for decodes with different numbers of draft tokens
  // FULL graph of a larger size, because the smallest fitting one cannot be dispatched.
  full_larger_size,
  piecewise_larger_size,
  // Relaxed hits: the routine of the batch is FULL, but it runs PIECEWISE.
  piecewise_cascade,
  piecewise_encoder_outputs,
  piecewise_more_logits_rows,
  piecewise_full_not_allowed,
  piecewise_no_decode_size,
  piecewise_full_retired,
  piecewise_full_not_captured,
  // Eager steps.
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
  ragged_drafts,
  no_decode_size,
  more_requests_than_captured,
  key_retired,
  key_not_captured,
};

inline constexpr size_t kNumDispatchReasons =
    static_cast<size_t>(DispatchReason::key_not_captured) + 1;

/// The name in snake_case, for metrics and JSON.
[[nodiscard]] std::string_view name(DispatchReason reason) noexcept;
/// One sentence for logs and users.
[[nodiscard]] std::string_view to_string(DispatchReason reason) noexcept;

/// Whether a step with this reason replays a graph.
[[nodiscard]] constexpr bool is_graph_hit(DispatchReason reason) noexcept {
  return reason < DispatchReason::not_initialised;
}

}  // namespace reprise::cudagraph
