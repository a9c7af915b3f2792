#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "reprise/lora/adapter_slots.h"
#include "reprise/models/expert_counting.h"
#include "reprise/models/parameters.h"
#include "reprise/models/projection.h"
#include "reprise/tensor/tensor.h"
#include "reprise/weights/config/decoder_tensors.h"
#include "reprise/weights/config/model_config.h"

namespace reprise::models {

/// The inputs from which the blocks of one decoder layer are made. Borrowed while the layer is
/// made.
struct LayerParts {
  const weights::ModelConfig& config;
  const weights::DecoderTensors& names;
  Parameters& parameters;
  int64_t layer = 0;
  // The table of the rotation. Undefined: this layer neither rotates nor scales its queries. The
  // table of a layer that does not rotate only scales the queries.
  Tensor rope_table;
  // A table for queries that grow with the position. Undefined: queries rotate by rope_table. In
  // latent attention this table only scales, see make_query_factor_table().
  Tensor query_rope_table;
  Tensor position_biases;                           // ALiBi; undefined: none
  lora::AdapterSlots* adapters = nullptr;           // nullptr: the engine has no adapters
  const ExpertCounting* expert_counting = nullptr;  // nullptr: nothing is counted

  /// The layer belongs to an encoder. Its keys and values are read only in the same forward, so all
  /// layers of the encoder use the cache of the decoder's first layer.
  bool is_of_encoder = false;

  /// The index of this layer among the layers of its cache.
  [[nodiscard]] int64_t cache_index() const {
    return is_of_encoder ? 0 : config.cache_index(layer);
  }

  /// Loads the weights and biases of modules of this layer, stacked by rows. Adapters may change
  /// this projection.
  [[nodiscard]] Projection load_linear(bool has_bias,
                                       std::initializer_list<std::string_view> modules,
                                       const Arrangement& arrangement = {}) const;
  /// The same for a projection whose weight is divided among ranks by columns: o and down.
  [[nodiscard]] Projection load_row_parallel(bool has_bias,
                                             std::initializer_list<std::string_view> modules) const;
  /// Loads the weights of modules of this layer, stacked by rows, for project().
  [[nodiscard]] Tensor load_projection(std::initializer_list<std::string_view> modules,
                                       Arrangement arrangement = {}) const;
  /// Loads the biases of these modules; undefined if `is_there` is false.
  [[nodiscard]] Tensor load_bias(bool is_there,
                                 std::initializer_list<std::string_view> modules,
                                 const Arrangement& arrangement = {}) const;
};

}  // namespace reprise::models
