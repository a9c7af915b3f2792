#pragma once

#include <cstdint>
#include <vector>

#include "reprise/cudagraph/capture_sizes.h"

namespace reprise::cudagraph {

/// The LoRA settings that the dispatcher needs.
struct LoraOptions {
  int32_t max_loras = 0;  // 0 = the engine runs without adapters
  /// Captures one graph per power-of-two count of active adapters, instead of one for any count.
  bool specialize_active_lora = false;

  friend bool operator==(const LoraOptions&, const LoraOptions&) = default;
};

/// The active-adapter counts that get their own graphs, and the case that serves a real count.
class LoraCases {
 public:
  /// Without adapters there is only the case 0.
  LoraCases();

  /// `specialize_lora` is `cudagraph_specialize_lora`: separate graphs with and without adapters.
  /// Rule vllm reproduces vLLM's dispatcher: when specialize_lora is off, a batch without adapters
  /// has no case; without specialisation by count, any positive count takes the largest case. Under
  /// the other rules batches without adapters use the adapter graph, and counts above max_loras + 1
  /// have no case.
  LoraCases(const LoraOptions& options, bool specialize_lora, CaptureSizeRule rule);

  /// Captured counts, ascending.
  [[nodiscard]] const std::vector<int32_t>& counts() const noexcept { return counts_; }

  /// Index into counts() of the case that serves `num_active_loras`, or -1.
  [[nodiscard]] int32_t case_index(int32_t num_active_loras) const noexcept {
    if (num_active_loras < 0) return -1;
    const auto n = static_cast<size_t>(num_active_loras);
    return n < index_of_count_.size() ? index_of_count_[n] : index_beyond_;
  }

 private:
  std::vector<int32_t> counts_;
  std::vector<int32_t> index_of_count_;
  int32_t index_beyond_ = -1;
};

}  // namespace reprise::cudagraph
