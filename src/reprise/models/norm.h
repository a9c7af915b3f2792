#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/models/layer_parts.h"

namespace reprise::models {

/// A norm over the last dimension, of the kind that the config names.
class Norm {
 public:
  Norm(const weights::ModelConfig& config,
       Parameters& parameters,
       const std::string& module,
       const Arrangement& arrangement = {});
  /// A norm of a layer.
  Norm(const LayerParts& parts, std::string_view module, const Arrangement& arrangement = {})
      : Norm(parts.config,
             parts.parameters,
             parts.names.in_layer(parts.layer, module),
             arrangement) {}

  [[nodiscard]] Tensor operator()(const Tensor& x) const;

 private:
  weights::NormType type_;
  float epsilon_;
  Tensor weight_;
  Tensor bias_;  // undefined = none
};

/// LayerNorm of each head of q or k, with weights of its own and without biases.
class HeadNorms {
 public:
  /// `order`: the order of the elements of a head; empty: as they are stored.
  HeadNorms(const LayerParts& parts,
            std::string_view module,
            int64_t num_heads,
            const std::vector<int64_t>& order);

  [[nodiscard]] Tensor operator()(const Tensor& x) const;  // [num_tokens, num_heads * head_dim]

 private:
  int64_t num_heads_;
  float epsilon_;
  Tensor weight_;  // [num_heads * head_dim]
};

}  // namespace reprise::models
