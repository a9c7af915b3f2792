#pragma once

#include <cstdint>

#include "reprise/tensor/tensor.h"

namespace reprise {

/// The kernels that an executor launches for the attention ops of a step, as an attention backend
/// chose them. The choice is the same for every device. An AttentionPath borrows its tensors.
struct AttentionPath {
  enum class Kind : uint8_t {
    any_batch,  // each token finds its request on the device
    uniform,    // every request has query_len tokens: token t belongs to request t / query_len
    planned,    // `plan` divides the work
  };

  Kind kind = Kind::any_batch;
  int32_t query_len = 1;  // uniform; planned: 0 = some requests may have several tokens
  Tensor plan;            // planned: int32[plan_size(requests)], see attention_plan.h
  /// Planned: float32[parts, heads, head_dim + 2], room for the parts of any plan.
  Tensor partials;
};

}  // namespace reprise
