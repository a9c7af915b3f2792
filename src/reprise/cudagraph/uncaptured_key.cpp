#include <array>

#include "reprise/cudagraph/cudagraph_dispatcher.h"

// The part of the dispatcher for engines that capture a graph when a batch first needs it.
namespace reprise::cudagraph {

std::optional<PlannedKey> CudagraphDispatcher::uncaptured_key(
    const BatchFacts& batch) const noexcept {
  if (!initialised_ || options_.mode == CudagraphMode::NONE || batch.num_tokens <= 0) return {};
  const int32_t lora_case = lora_cases_.case_index(batch.num_active_loras);
  if (lora_case < 0) return {};
  const bool full_fits = batch.allowed.contains(CudagraphRuntimeMode::FULL) && !batch.cascade &&
                         !batch.encoder_outputs && has_rows(batch, batch.num_reqs);
  const bool piecewise_fits = batch.allowed.contains(CudagraphRuntimeMode::PIECEWISE) &&
                              has_rows(batch, options_.max_num_seqs);
  const std::array<int32_t, 2> by_preference = {
      full_fits ? look_up_full(batch, lora_case).planned : -1,
      piecewise_fits ? look_up_piecewise(batch, lora_case).planned : -1};
  for (const int32_t index : by_preference) {
    if (index < 0) continue;
    const Key& key = keys_[static_cast<size_t>(index)];
    if (key.state == KeyState::captured) return {};
    if (key.state == KeyState::planned) return PlannedKey{key.mode, key.descriptor};
  }
  return {};
}

}  // namespace reprise::cudagraph
