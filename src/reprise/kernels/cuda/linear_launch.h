#pragma once

#include <cstdint>

#include "reprise/device/device.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels::cuda {

/// The norm of x that a product takes first, if it has a weight.
struct NormCall {
  const Tensor& weight;  // [in_features] or undefined
  float epsilon;
};

/// Whether products of x can take its norm first, with the bits that the norm and the product have
/// after each other: few rows, of types and alignments that are the tensor cores'. For more rows
/// the norm costs less by itself, once, than in every block.
[[nodiscard]] bool can_norm_first(const Tensor& x, const Tensor& weight, const Tensor& norm);

/// The arguments of a product, borrowed for the call; undefined tensors are left out.
struct LinearCall {
  const Tensor& x;         // [num_tokens, in_features], rows may be strided
  const Tensor& weight;    // [out_features, in_features]
  const Tensor& bias;      // [out_features] or undefined
  const Tensor& residual;  // like out, rows may be strided, or undefined
  const Tensor& num_rows;  // int32[1], read when the work runs, or undefined: all
  const Tensor& out;       // [num_tokens, out_features], or half of them with silu_and_mul
  NormCall norm;           // \pre none, or can_norm_first()
};

/// Picks the kernel that fits type, shape, alignment and number of rows. Blocks are as many as keep
/// `num_multiprocessors` busy, which changes no result.
bool launch_linear(device::Stream& stream,
                   const LinearKernels& kernels,
                   int num_multiprocessors,
                   const LinearCall& call);

/// launch_rope_kv_write of the heads of linear(x, weight, bias), with the bits that the two have
/// after each other, in one launch; or nothing, and false, where no kernel does that: norms of
/// heads, more than 32 rows, heads that are cut otherwise, types and alignments that are not the
/// tensor cores'.
bool launch_linear_rope_kv_write(device::Stream& stream,
                                 int num_multiprocessors,
                                 const Tensor& x,
                                 const Tensor& weight,
                                 const Tensor& bias,
                                 const RopeAndCacheCall& call,
                                 const NormCall& norm);

}  // namespace reprise::kernels::cuda
