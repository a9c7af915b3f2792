#pragma once

#include <cstdint>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels::cuda {

/// The norm of x before a matrix product. Without a weight there is no norm.
struct NormCall {
  const Tensor& weight;  // [in_features] or undefined
  float epsilon;
};

/// Whether one launch can compute the norm of x and then the product, with the bits of two
/// launches. It can for few rows whose type and alignment fit the tensor cores. With more rows, one
/// separate norm costs less than a norm in every block.
[[nodiscard]] bool can_norm_first(const Tensor& x, const Tensor& weight, const Tensor& norm);

/// The kernels of a product whose rows and alignment fit the tensor cores. No choice changes a
/// result. A choice without a kernel means the rule.
struct TileChoice {
  // Columns of a block's tile; streamed: the rows of the weight that it reads, of which
  // silu_and_mul has two for each column. 0: as the rule says.
  int32_t columns = 0;
  bool is_streamed = false;  // for up to eight rows, and GPUs that have streamed_kernels()

  friend bool operator==(const TileChoice&, const TileChoice&) = default;
};

/// The arguments of a matrix product, borrowed for the call. Undefined tensors are left out.
struct LinearCall {
  const Tensor& x;         // [num_tokens, in_features], rows may be strided
  const Tensor& weight;    // [out_features, in_features]
  const Tensor& bias;      // [out_features] or undefined
  const Tensor& residual;  // like out, rows may be strided, or undefined
  const Tensor& num_rows;  // int32[1], read when the work runs, or undefined: all
  const Tensor& out;       // [num_tokens, out_features], or half of them with silu_and_mul
  NormCall norm;           // \pre none, or can_norm_first()
  TileChoice tiles = {};
};

/// The tiles among which launches of a product with so many rows can choose; streamed ones only
/// where the GPU has streamed_kernels(). Empty: there is only one kernel.
[[nodiscard]] std::vector<TileChoice> tile_choices(const LinearKernels& kernels,
                                                   const Tensor& x,
                                                   const Tensor& weight,
                                                   bool has_streamed_kernels);

/// Chooses the kernel by type, shape, alignment and number of rows, and launches as many blocks as
/// keep `num_multiprocessors` busy. The number of blocks changes no result.
bool launch_linear(device::Stream& stream,
                   const LinearKernels& kernels,
                   int num_multiprocessors,
                   const LinearCall& call);

/// launch_rope_kv_write of the heads of linear(x, weight, bias) in one launch, with the bits of two
/// launches. Returns false and launches nothing where no kernel does that: for norms of heads, more
/// than 32 rows, other head sizes, and types and alignments that do not fit the tensor cores.
bool launch_linear_rope_kv_write(device::Stream& stream,
                                 int num_multiprocessors,
                                 const Tensor& x,
                                 const Tensor& weight,
                                 const Tensor& bias,
                                 const RopeAndCacheCall& call,
                                 const NormCall& norm,
                                 TileChoice tiles = {});

}  // namespace reprise::kernels::cuda
