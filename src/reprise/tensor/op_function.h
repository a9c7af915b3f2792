#pragma once

#include <cstdint>

/// The values of the attribute `function`, which says what an op computes of which there are
/// several kinds. The signature of an op names those that it has.
#define REPRISE_OP_FUNCTIONS(X) \
  X(gelu)                       \
  X(gelu_tanh)                  \
  X(relu)                       \
  X(relu2)                      \
  X(silu)                       \
  X(sigmoid)                    \
  X(rms_norm)                   \
  X(layer_norm)                 \
  X(last)                       \
  X(cls)                        \
  X(mean)                       \
  X(softmax_of_all)             \
  X(softmax_of_chosen)          \
  X(ones)                       \
  X(softmax)                    \
  X(normalized_softmax)         \
  X(normalized_sigmoid)

namespace reprise {

/// Kernels take the function in their arguments.
enum class OpFunction : uint8_t {
  none,  // of ops without this attribute
#define X(function) function,
  REPRISE_OP_FUNCTIONS(X)
#undef X
};

}  // namespace reprise
