// The headers that the sources of the instruction sets include: argument structs and the table.
// These contain no inline function that such a source would call. The folders of the ops are listed
// in CMakeLists.txt.
#include <cstddef>
#include <cstdint>

#include "reprise/base/element.h"
#include "reprise/device/kernel.h"
#include "reprise/kernels/kernel_arguments.inl"
#include "reprise/kernels/kernel_table.h"
#include "reprise/kernels/rows.h"
#include "reprise/kernels/vector/exp_arguments.h"
#include "reprise/tensor/attention_plan.h"
#include "reprise/tensor/attention_segments.h"
#include "reprise/tensor/column_panels.h"
#include "reprise/tensor/float_panels.h"
#include "reprise/tensor/int8_panels.h"

// Inlining is forced, because vector lanes must not be passed through a call.
#define REPRISE_INLINE inline __attribute__((always_inline))
// The same for a lambda, after its parameters.
#define REPRISE_LAMBDA_INLINE __attribute__((always_inline))
