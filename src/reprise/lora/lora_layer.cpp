#include "reprise/lora/lora_layer.h"

#include <algorithm>

namespace reprise::lora {

std::vector<LoraPart> parts_of(const std::vector<LoraModule>& modules,
                               const std::vector<int64_t>& rows) {
  std::vector<int64_t> ends;  // where each module ends, in rows of the stack
  for (const LoraModule& module : modules) {
    ends.push_back((ends.empty() ? 0 : ends.back()) + module.out_features);
  }
  std::vector<LoraPart> parts;
  for (int64_t output = 0; output < ends.back(); ++output) {
    const int64_t row = rows.empty() ? output : rows[static_cast<size_t>(output)];
    const auto module = static_cast<size_t>(std::ranges::upper_bound(ends, row) - ends.begin());
    if (parts.empty() || parts.back().module != module) {
      parts.push_back({.module = module, .begin = output});
    }
    parts.back().end = output + 1;
  }
  return parts;
}

}  // namespace reprise::lora
