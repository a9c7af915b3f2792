#pragma once

#include <cstdint>

#include "reprise/tensor/tensor.h"

namespace reprise {

/// Which kernels an executor launches for attention ops: what an attention backend chose for a
/// step, in words that every device knows. Borrows its tensors.
struct AttentionRoutine {
  enum class Kind : uint8_t {
    any_batch,  // each token finds its request on the device
    uniform,    // every request has query_len tokens: token t belongs to request t / query_len
    planned,    // the work is cut up as `plan` says
  };

  Kind kind = Kind::any_batch;
  int32_t query_len = 1;  // uniform; planned: 0 = requests with several tokens may be among them
  Tensor plan;            // planned: int32[plan_size(requests)], see attention_plan.h
  /// Planned: float32[parts, heads, head_dim + 2], room for the parts of any plan.
  Tensor partials;
};

}  // namespace reprise
