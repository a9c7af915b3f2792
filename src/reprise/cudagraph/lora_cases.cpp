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
  const bool has_plain_case = specialize_lora || rule == CaptureSizeRule::vllm;
  if (has_plain_case) counts_.push_back(0);
  if (specialize_lora && options.specialize_active_lora) {
    for (int32_t count = 1; count < largest; count *= 2) counts_.push_back(count);
  }
  counts_.push_back(largest);

  const bool is_v1 = is_of_first_runner(rule);
  const auto last = static_cast<int32_t>(counts_.size()) - 1;
  index_of_count_.assign(static_cast<size_t>(largest) + 1, last);
  if (has_plain_case) {
    index_of_count_[0] = 0;
  } else if (is_v1) {
    index_of_count_[0] = -1;
  }
  if (options.specialize_active_lora) {
    for (int32_t count = 1; count <= largest; ++count) {
      const auto fit = std::lower_bound(counts_.begin(), counts_.end(), count);
      index_of_count_[static_cast<size_t>(count)] = static_cast<int32_t>(fit - counts_.begin());
    }
  }
  const bool serves_any_count =
      rule == CaptureSizeRule::vllm || (is_v1 && !options.specialize_active_lora);
  index_beyond_ = serves_any_count ? last : -1;
}

}  // namespace reprise::cudagraph
