#pragma once

#include <cstddef>
#include <cstdint>

#include "reprise/models/layer_parts.h"
#include "reprise/models/norm.h"

namespace reprise::models {

/// Embeddings of each layer (per-layer embeddings of Gemma 4): a layer gets the row of its own
/// table for the token, and a projection of the token's first hidden state.
class LayerEmbedding {
 public:
  LayerEmbedding(const weights::ModelConfig& config,
                 const weights::DecoderTensors& names,
                 Parameters& parameters);

  /// The vectors of all layers, side by side.
  [[nodiscard]] Tensor operator()(const Tensor& input_ids, const Tensor& hidden) const;
  /// The vectors of one of this rank's layers. \pre `of_all` is a result of operator()
  [[nodiscard]] Tensor part(const Tensor& of_all, size_t layer_of_rank) const;

 private:
  int64_t num_layers_;
  int64_t first_layer_;  // of this rank
  int64_t size_;         // of the vector of a layer
  Tensor table_;
  Tensor projection_;
  Norm norm_;
};

/// Adds a layer's vector to its hidden state: the vector is gated by the hidden state and
/// projected.
class LayerInput {
 public:
  explicit LayerInput(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden,
                                  const Tensor& layer_input) const;

 private:
  weights::Activation activation_;
  Projection gate_;
  Projection projection_;
  Norm norm_;
};

}  // namespace reprise::models
