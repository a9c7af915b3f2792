// What ISA files include: argument structs and the table; nothing with inline functions in use.
#include <cstddef>
#include <cstdint>

#include "reprise/device/kernel.h"
#include "reprise/kernels/add/add_arguments.h"
#include "reprise/kernels/attention/attention_arguments.h"
#include "reprise/kernels/element.h"
#include "reprise/kernels/fused_add_rms_norm/fused_add_rms_norm_arguments.h"
#include "reprise/kernels/gather_rows/gather_rows_arguments.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/kernels/kv_write/kv_write_arguments.h"
#include "reprise/kernels/linear/linear_arguments.h"
#include "reprise/kernels/linear_add/linear_add_arguments.h"
#include "reprise/kernels/linear_rope_kv_write/linear_rope_kv_write_arguments.h"
#include "reprise/kernels/quantize/quantize_arguments.h"
#include "reprise/kernels/rms_norm/rms_norm_arguments.h"
#include "reprise/kernels/rope/rope_arguments.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write_arguments.h"
#include "reprise/kernels/rows.h"
#include "reprise/kernels/scaled_linear/scaled_linear_arguments.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul_arguments.h"
#include "reprise/kernels/vector/exp_arguments.h"
#include "reprise/tensor/attention_plan.h"

// Lanes must never travel through a call.
#define REPRISE_INLINE inline __attribute__((always_inline))
