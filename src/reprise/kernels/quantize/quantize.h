#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

/// Quantisation to eight bits: to int8 or float8 E4M3, the type of `q`.
///
/// Static: q = saturate(x / scale), a float32 division rounded to nearest even and clamped to
/// [-128, 127] or [-448, 448]; a NaN is 0 in int8 and NaN in float8.
///
/// Per token: each row has scale = max(largest |x| of the row, 1e-10) / largest in float32, where
/// largest is 127 or 448, and is divided by this scale. No scale is zero, and a row of zeros stays
/// a row of zeros. A row with a NaN or an infinity has the scale NaN or infinity, so its products
/// are not numbers that look valid. Source: vLLM's dynamic per-token quantisation,
/// csrc/quantization. It differs in the floor, which is the same for both types here (vLLM has none
/// for int8, and 1 / (512 * 448) as the smallest scale of float8). It also differs in dividing by
/// the scale for int8, where vLLM multiplies by 127 / largest |x|.
namespace reprise::kernels {

bool launch_quantize_per_token(device::Stream& stream,
                               const KernelTable& kernels,
                               const Tensor& x,        // [num_tokens, width], rows may be strided
                               const Tensor& q,        // like x, dense, of eight bits
                               const Tensor& scales);  // float32[num_tokens]

bool launch_quantize_static(device::Stream& stream,
                            const KernelTable& kernels,
                            const Tensor& x,      // [..., width], leading dimensions may be strided
                            const Tensor& scale,  // float32[1], read when the kernel runs
                            const Tensor& q);     // like x, dense, of eight bits

// The next three have the bits of the op in their name followed by launch_quantize_per_token: the
// values are rounded to the type of x before they are quantised.

bool launch_rms_norm_quant(device::Stream& stream,
                           const KernelTable& kernels,
                           const Tensor& x,       // [num_tokens, width], rows may be strided
                           const Tensor& weight,  // [width]
                           float epsilon,
                           const Tensor& q,        // like x, dense, of eight bits
                           const Tensor& scales);  // float32[num_tokens]

struct FusedAddRmsNormQuantCall {
  const Tensor& x;         // [num_tokens, width], rows may be strided
  const Tensor& residual;  // like x
  const Tensor& weight;    // [width]
  float epsilon;
  const Tensor& q;       // like x, dense, of eight bits
  const Tensor& scales;  // float32[num_tokens]
  const Tensor& sum;     // like x, dense; may be the memory of x or residual
};
bool launch_fused_add_rms_norm_quant(device::Stream& stream,
                                     const KernelTable& kernels,
                                     const FusedAddRmsNormQuantCall& call);

bool launch_silu_and_mul_quant(device::Stream& stream,
                               const KernelTable& kernels,
                               const Tensor& x,  // [num_tokens, gate | up], rows may be strided
                               const Tensor& q,  // [num_tokens, size of gate], of eight bits
                               const Tensor& scales);  // float32[num_tokens]

}  // namespace reprise::kernels
