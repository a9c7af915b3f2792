#include "reprise/cudagraph/lora_cases.h"

#include <algorithm>

namespace reprise::cudagraph {

LoraCases::LoraCases() : counts_{0}, index_of_count_{0} {}

LoraCases::LoraCases(const LoraOptions& options, bool specialize_lora, CaptureSizeRule rule)
    : LoraCases() {
  if (options.max_loras <= 0) return;
  // vLLM counts the slot of requests without an adapter as active, so the largest number is
  // max_loras + 1.
  const int32_t largest = options.max_loras + 1;
  counts_.clear();
  if (specialize_lora) counts_.push_back(0);
  if (specialize_lora && options.specialize_active_lora) {
    for (int32_t count = 1; count < largest; count *= 2) counts_.push_back(count);
  }
  counts_.push_back(largest);

  const bool vllm = rule == CaptureSizeRule::vllm;
  const auto last = static_cast<int32_t>(counts_.size()) - 1;
  index_of_count_.assign(static_cast<size_t>(largest) + 1, last);
  if (specialize_lora) {
    index_of_count_[0] = 0;
  } else if (vllm) {
    index_of_count_[0] = -1;
  }
  if (options.specialize_active_lora) {
    for (int32_t count = 1; count <= largest; ++count) {
      const auto fit = std::lower_bound(counts_.begin(), counts_.end(), count);
      index_of_count_[static_cast<size_t>(count)] = static_cast<int32_t>(fit - counts_.begin());
    }
  }
  index_beyond_ = vllm && !options.specialize_active_lora ? last : -1;
}

}  // namespace reprise::cudagraph
