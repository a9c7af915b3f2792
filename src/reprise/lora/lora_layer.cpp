#include "reprise/lora/lora_layer.h"

#include "reprise/base/assert.h"

namespace reprise::lora {

std::vector<int32_t> ends_of_modules(const std::vector<LoraModule>& modules,
                                     const std::vector<int64_t>& rows) {
  std::vector<int32_t> ends;
  int64_t end = 0;
  for (const LoraModule& module : modules) {
    const int64_t begin = end;
    end += module.out_features;
    ends.push_back(static_cast<int32_t>(end));
    for (int64_t output = begin; !rows.empty() && output < end; ++output) {
      const int64_t row = rows[static_cast<size_t>(output)];
      REPRISE_ASSERT(row >= begin && row < end,
                     "output {} is row {} of the stack, outside of module {}",
                     output,
                     row,
                     module.name);
    }
  }
  return ends;
}

}  // namespace reprise::lora
