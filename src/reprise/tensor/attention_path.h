#pragma once

#include <cstdint>

#include "reprise/tensor/tensor.h"

namespace reprise {

/// The kernels that an executor launches for the attention ops of one step. An attention backend
/// chooses them before the step, in the same way for every device. An AttentionPath borrows its
/// tensors.
struct AttentionPath {
  enum class Kind : uint8_t {
    any_batch,  // a kernel searches query_start_loc for the request of each token
    uniform,    // every request has query_len tokens, so token t belongs to request t / query_len
    planned,    // `plan` lists the work items
  };

  Kind kind = Kind::any_batch;
  // uniform: tokens per request. planned: 1, or 0 if some requests may have several tokens.
  int32_t query_len = 1;
  Tensor plan;  // planned: int32[plan_size(requests)], see attention_plan.h
  /// For `planned`: float32[parts, heads, head_dim + 2], room for the parts of any plan.
  Tensor partials;
  /// Cascade attention, not for `planned`: the first blocks of all requests are the same and hold
  /// this many positions, and every token of the step comes after them. A multiple of 32; 0 = none.
  /// The part of attention over these positions is computed once for many tokens. On the CPU only,
  /// and only outside of FULL graphs.
  int32_t shared_prefix_len = 0;
  int32_t tokens_per_prefix_block = 1;  // that share the loads of the prefix
  Tensor prefix_states;                 // float32[>= num_tokens * heads * 2 * (value_dim + 2)]
  /// Not for `planned`: memory for the sums of the segments of long contexts
  /// (attention_segments.h), so that several workers can compute one row. With less memory, or
  /// none, one worker computes all segments of some rows, with the same bits. On the CPU only.
  Tensor segment_sums;      // float32[parts, tokens, heads, value_dim + 2]
  Tensor segment_counters;  // int32[parts * heads], zeros before and after each launch
};

}  // namespace reprise
