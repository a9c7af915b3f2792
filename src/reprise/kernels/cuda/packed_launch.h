#pragma once

#include "reprise/kernels/cuda/gemm_library.h"
#include "reprise/kernels/cuda/packed_call.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write.h"

namespace reprise::kernels::cuda {

/// What a launch of a product depends on besides its operands.
struct PackedMachine {
  int num_multiprocessors;
  GemmLibrary* library;  // for many rows; nullptr: the machine has none
  /// Whether products of up to eight rows, and those of experts with few rows each, take
  /// streamed_kernels(), where these fit the operands.
  bool is_streamed = false;
};

/// out = x weight^T + bias, then the sum with a residual if there is one. If the weight asks for
/// quantised rows and x is elements, these are normed, if there is a norm, and quantised first: by
/// the product itself where a streamed kernel can, otherwise by a launch of their own.
bool launch_packed_linear(const OpRun& run, const PackedCall& call, const PackedMachine& machine);

/// The same with the rotation of heads and the cache write of launch_rope_kv_write, in one launch.
/// Returns false and launches nothing unless a streamed kernel quantises the rows itself, and can
/// rotate these heads. call.out is left out.
bool launch_packed_rope_kv_write(const OpRun& run,
                                 const PackedCall& call,
                                 const RopeAndCacheCall& heads,
                                 const PackedMachine& machine);

/// Whether there are streamed kernels for so many rows of x, of this size and place, and the
/// weight; for elements, if they are quantised before.
[[nodiscard]] bool can_stream(const Tensor& x, const Tensor& weight);

/// The same for experts; `rows` of the result have an expert.
[[nodiscard]] bool can_stream_experts(const Tensor& x, const Tensor& weight, int64_t rows);

/// Whether the kernels on the tensor cores multiply experts: all packed ones, and of those in rows
/// the ones of 16 bits whose rows are aligned.
[[nodiscard]] bool can_multiply_experts(const Tensor& x, const Tensor& weight);

/// Launches an op whose second operand is a packed weight: a product with any epilogue but a
/// rotation, or a product of experts, whose weight may also be in rows (can_multiply_experts).
/// Kernels read the header of a weight in blocks, because the host cannot. \throws InvalidArgument
/// for other ops and other layouts
bool launch_packed_product(const OpRun& run, const PackedMachine& machine);

}  // namespace reprise::kernels::cuda
