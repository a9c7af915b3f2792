#pragma once

#include <cstdint>

#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// What attention needs to know of one step's batch. The tensors are views of persistent buffers;
/// their sizes are the padded ones in a FULL step and the real ones otherwise. The integers on the
/// host are for planning only: nothing captured may depend on them.
struct AttentionMetadata {
  Tensor query_start_loc;  // int32[num_reqs + 1]; padding repeats the last real value
  Tensor seq_lens;         // int32[num_reqs]; padding is 0
  Tensor block_table;      // int32[num_reqs, max_blocks_per_req]; padding is the null block
  Tensor slot_mapping;     // int32[num_tokens]; padding is -1
  int32_t num_reqs = 0;
  int32_t num_tokens = 0;
  int32_t max_query_len = 0;
  int32_t max_seq_len = 0;
};

}  // namespace reprise::attention
