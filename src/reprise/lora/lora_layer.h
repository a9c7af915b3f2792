#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/tensor/tensor.h"

namespace reprise::lora {

/// One module of the checkpoint, such as "model.layers.0.self_attn.q_proj".
struct LoraModule {
  std::string name;
  int64_t out_features = 0;
};

/// The memory of one projection for the adapters of all slots. The projection may stack several
/// modules (q, k and v); each module has adapters of its own. Constant after the model is loaded,
/// except for the contents of `a` and `b`.
struct LoraLayer {
  std::vector<LoraModule> modules;  // in the order of the stack
  int64_t in_features = 0;
  /// Output i of the projection is row rows[i] of the stack of modules. Empty: all rows in order.
  std::vector<int64_t> rows;
  Tensor a;     // [num_slots, modules * max_rank, in_features]
  Tensor b;     // [num_slots, max_rank, out_features]: transposed, and multiplied by the scale
  Tensor ends;  // int32[modules]: the outputs of module p end before ends[p]

  /// The row of the stack of modules that is output `output`.
  [[nodiscard]] int64_t stacked_row(int64_t output) const {
    return rows.empty() ? output : rows[static_cast<size_t>(output)];
  }
};

/// For each module of a stack, where its outputs end in the order of `rows`.
/// \pre the outputs of a module are neighbours, and the modules keep their order
[[nodiscard]] std::vector<int32_t> ends_of_modules(const std::vector<LoraModule>& modules,
                                                   const std::vector<int64_t>& rows);

}  // namespace reprise::lora
