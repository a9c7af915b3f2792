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

/// Neighbouring outputs of a projection that are rows of the same module.
struct LoraPart {
  size_t module = 0;  // in LoraLayer::modules
  int64_t begin = 0;  // outputs
  int64_t end = 0;

  friend bool operator==(const LoraPart&, const LoraPart&) = default;
};

/// The memory of one projection for the adapters of all slots. The projection may stack several
/// modules (q, k and v); each module has adapters of its own. A module may have several parts: the
/// gates of attention are rows of q_proj and come after v. Each part has a copy of its module's A.
/// Constant after the model is loaded, except for the contents of `a` and `b`.
struct LoraLayer {
  std::vector<LoraModule> modules;  // in the order of the stack
  int64_t in_features = 0;
  /// Output i of the projection is row rows[i] of the stack of modules. Empty: all rows in order.
  std::vector<int64_t> rows;
  std::vector<LoraPart> parts;  // parts_of(modules, rows)
  Tensor a;                     // [num_slots, parts * max_rank, in_features]
  Tensor b;     // [num_slots, max_rank, out_features]: transposed, and multiplied by the scale
  Tensor ends;  // int32[parts]: where the outputs of each part end

  /// The row of the stack of modules that becomes output `output`.
  [[nodiscard]] int64_t stacked_row(int64_t output) const {
    return rows.empty() ? output : rows[static_cast<size_t>(output)];
  }
};

/// The parts of a projection, in the order of its outputs. \pre rows are of the stack, or empty
[[nodiscard]] std::vector<LoraPart> parts_of(const std::vector<LoraModule>& modules,
                                             const std::vector<int64_t>& rows);

}  // namespace reprise::lora
