#pragma once

#include <cstdint>
#include <span>

#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// What attention needs to know about one step's batch. The tensors are views of persistent
/// buffers. Their sizes include padding only in a FULL step.
struct AttentionMetadata {
  Tensor query_start_loc;  // int32[num_reqs + 1]; padding repeats the last real value
  Tensor seq_lens;         // int32[num_reqs]; padding is 0
  Tensor block_table;      // int32[num_reqs, max_blocks_per_req]; padding is the null block
  Tensor slot_mapping;     // int32[num_tokens]; padding is -1
  /// int32[num_reqs, slots per request]: the state slots of each request, see kernels; padding is
  /// the null slot. Undefined if the model has no recurrent layers.
  Tensor state_indices;
  /// For the texts of an encoder, which the requests' tokens attend to: int32[num_reqs] and
  /// int32[num_reqs, max_blocks_per_req]; padding is 0 and the null block. Undefined if the model
  /// has no encoder.
  Tensor encoder_lens;
  Tensor encoder_block_table;
  /// The same lengths on the host, without padding. Backends that write attention plans read them.
  /// Empty while a model is traced.
  std::span<const int32_t> host_query_start_loc;  // [real requests + 1]
  std::span<const int32_t> host_seq_lens;         // [real requests]
};

}  // namespace reprise::attention
