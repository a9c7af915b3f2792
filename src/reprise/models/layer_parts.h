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

/// What the blocks of one decoder layer are made of. Borrowed while the layer is made.
struct LayerParts {
  const weights::ModelConfig& config;
  const weights::DecoderTensors& names;
  Parameters& parameters;
  int64_t layer = 0;
  // Undefined: this layer does not rotate. A layer that does not rotate either multiplies its
  // queries by this table's factors.
  Tensor rope_table;
  // For queries that grow with the position. Undefined: queries rotate by rope_table. In latent
  // attention this table only multiplies, see make_query_factor_table().
  Tensor query_rope_table;
  Tensor position_biases;                           // ALiBi; undefined: none
  lora::AdapterSlots* adapters = nullptr;           // nullptr: the engine has no adapters
  const ExpertCounting* expert_counting = nullptr;  // nullptr: nothing is counted

  /// The layer of an encoder, whose keys and values are read in the same forward only: all of them
  /// use the cache of the decoder's first layer.
  bool is_of_encoder = false;

  /// The place of this layer among those of its cache.
  [[nodiscard]] int64_t cache_index() const {
    return is_of_encoder ? 0 : config.cache_index(layer);
  }

  /// The weights and biases of modules of this layer, one above the other. Adapters may change this
  /// projection.
  [[nodiscard]] Projection load_linear(bool has_bias,
                                       std::initializer_list<std::string_view> modules,
                                       const Arrangement& arrangement = {}) const;
  /// The same for a projection whose weight ranks share by columns: o and down.
  [[nodiscard]] Projection load_row_parallel(bool has_bias,
                                             std::initializer_list<std::string_view> modules) const;
  /// The weights of modules of this layer, one above the other, for project().
  [[nodiscard]] Tensor load_projection(std::initializer_list<std::string_view> modules,
                                       Arrangement arrangement = {}) const;
  /// Their biases, or an undefined tensor.
  [[nodiscard]] Tensor load_bias(bool is_there,
                                 std::initializer_list<std::string_view> modules,
                                 const Arrangement& arrangement = {}) const;
};

}  // namespace reprise::models
