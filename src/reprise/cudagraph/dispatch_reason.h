#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise::cudagraph {

/// Why a batch got its runtime mode. The ledger counts each reason, and the metrics use its name as
/// a label, so every reason has an enumerator here.
enum class DispatchReason : uint8_t {
  // Graph hits: the batch runs in its routine.
  full_uniform,  // FULL graph for uniform decode batches
  full_general,  // FULL graph for any batch
  piecewise,     // PIECEWISE graphs, for a batch whose routine is PIECEWISE
  // The same, for decode batches whose requests have different numbers of draft tokens.
  piecewise_ragged_drafts,
  // FULL graph of a larger size, because the smallest fitting one cannot be dispatched.
  full_larger_size,
  piecewise_larger_size,
  // FULL graph of mixed batches, for a decode batch whose own FULL graph cannot be dispatched.
  full_of_mixed_batches,
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
  key_quarantined,  // its replay differed from an eager run of the same step
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

/// Whether a step with this reason keeps the promise of `--strict-graphs`: a batch that a planned
/// key serves replays the best such key. A batch that no planned key serves, for example one beyond
/// the largest size, breaks no promise. With `--strict-graphs` a step with any other reason fails.
[[nodiscard]] constexpr bool keeps_promise(DispatchReason reason) noexcept {
  switch (reason) {
    case DispatchReason::full_larger_size:
    case DispatchReason::piecewise_larger_size:
    case DispatchReason::full_of_mixed_batches:
    case DispatchReason::piecewise_full_not_allowed:
    case DispatchReason::piecewise_full_retired:
    case DispatchReason::piecewise_full_not_captured:
    case DispatchReason::not_initialised:
    case DispatchReason::only_none_allowed:
    case DispatchReason::mode_not_allowed:
    case DispatchReason::key_retired:
    case DispatchReason::key_quarantined:
    case DispatchReason::key_not_captured:
      return false;
    default:
      return true;
  }
}

}  // namespace reprise::cudagraph
