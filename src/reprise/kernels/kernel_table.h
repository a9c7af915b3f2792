#pragma once

#include "reprise/device/kernel.h"
#include "reprise/kernels/isa.h"
#include "reprise/tensor/dtype.h"

namespace reprise::kernels {

/// One kernel for each float type that activations may have.
struct FloatKernels {
  device::Kernel f32;
  device::Kernel bf16;
  device::Kernel f16;
};

/// Kernels between float and eight-bit types.
struct QuantKernels {
  FloatKernels i8;
  FloatKernels f8e4m3;
};

/// Every CPU kernel of one instruction set. Constants: launches refer to the kernels by address.
struct KernelTable {
  Isa isa;
  FloatKernels rms_norm;
  FloatKernels add;
  FloatKernels fused_add_rms_norm;
  FloatKernels silu_and_mul;
  FloatKernels linear;
  FloatKernels lm_head;
  FloatKernels rope;
  FloatKernels attention;
  FloatKernels uniform_attention;
  FloatKernels planned_attention;
  FloatKernels merge_attention;
  FloatKernels linear_add;
  FloatKernels linear_silu_and_mul;
  FloatKernels rope_kv_write;
  FloatKernels linear_rope_kv_write;
  QuantKernels quantize_per_token;
  QuantKernels quantize_static;
  QuantKernels rms_norm_quant;
  QuantKernels fused_add_rms_norm_quant;
  QuantKernels silu_and_mul_quant;
  QuantKernels scaled_linear;
  // Copies bytes, so one kernel serves all types.
  device::Kernel gather_rows;
  device::Kernel kv_write;
  // ExpArguments, one block; no op.
  device::Kernel exp;
};

/// Chosen once, when an executor is made; the choice decides the bits of every result.
/// \pre this build has kernels for `isa` (see is_supported)
[[nodiscard]] const KernelTable& kernel_table(Isa isa);

/// \throws InvalidArgument when `dtype` is not a float type
[[nodiscard]] const device::Kernel& kernel_for(const FloatKernels& kernels, DType dtype);

/// \throws InvalidArgument when `eight_bits` is neither int8 nor float8, or `dtype` no float type
[[nodiscard]] const device::Kernel& kernel_for(const QuantKernels& kernels,
                                               DType eight_bits,
                                               DType dtype);

// One table per source file in isa/.
extern const KernelTable kScalarKernels;
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
extern const KernelTable kAvx512Bf16Kernels;

}  // namespace reprise::kernels
