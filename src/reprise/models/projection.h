#pragma once

#include <cstdint>

#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/lora/lora_layer.h"
#include "reprise/tensor/tensor.h"

namespace reprise::models {

/// The weight and the bias of a projection, and the adapters that may change its product.
struct Projection {
  Tensor weight;                          // of Parameters::load_projection()
  Tensor bias;                            // undefined = none
  const lora::LoraLayer* lora = nullptr;  // nullptr: no adapters; owned by lora::AdapterSlots
  /// The number of ranks, if each has some columns of the weight (row parallel): their products are
  /// added.
  int64_t ranks = 1;
  /// f32[1]: the checkpoint's scale for quantising the projection's input, for a weight in int8
  /// panels. Undefined: x is quantised as the layout of the weight asks for.
  Tensor input_scale = {};
};

/// The product with the weight. In a forward for batches with adapters, each token's adapter adds
/// its part. If each rank has a part of the weight, the sum over the ranks.
[[nodiscard]] Tensor project(const cudagraph::ForwardContext& context,
                             const Tensor& x,
                             const Projection& projection);

/// x @ weight^T + bias, for a weight of Parameters::load_projection(). x is first quantised if the
/// layout of the weight asks for that.
[[nodiscard]] Tensor project(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// The product of each row with the weight of its expert, for weights of
/// Parameters::load_experts(): see ops::expert_linear().
[[nodiscard]] Tensor project_by_expert(const Tensor& x,
                                       const Tensor& weights,
                                       const Tensor& biases,
                                       const Tensor& experts);

/// The columns of a, then those of b.
[[nodiscard]] Tensor side_by_side(const Tensor& a, const Tensor& b);

/// Logits of the rows below num_logits[0], for a weight of Parameters::load_projection().
[[nodiscard]] Tensor project_to_logits(const Tensor& x,
                                       const Tensor& weight,
                                       const Tensor& num_logits);

}  // namespace reprise::models
