#pragma once

#include <cstdint>
#include <vector>

#include "reprise/cudagraph/capture_sizes.h"

namespace reprise::cudagraph {

/// The LoRA settings on which keys depend.
struct LoraOptions {
  int32_t max_loras = 0;  // 0: the engine has no adapters
  /// true: separate graphs for 1, 2, 4, ... active adapters. false: one graph serves any number.
  bool specialize_active_lora = false;

  friend bool operator==(const LoraOptions&, const LoraOptions&) = default;
};

/// The numbers of active LoRA adapters for which graphs are captured (the cases), and which case
/// serves a batch.
class LoraCases {
 public:
  /// An engine without adapters: only the case 0.
  LoraCases();

  /// `specialize_lora` is the option `cudagraph_specialize_lora`: whether batches without adapters
  /// get graphs without adapters. If it is off: rule vllm captures such graphs all the same; with
  /// rule vllm_v1 such batches have no case; with the other rules they use the graphs with
  /// adapters. Numbers above max_loras + 1 take the largest case with rule vllm, with rule vllm_v1
  /// only without LoraOptions::specialize_active_lora, and have no case with the other rules.
  LoraCases(const LoraOptions& options, bool specialize_lora, CaptureSizeRule rule);

  /// The cases, ascending.
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
