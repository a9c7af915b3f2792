#pragma once

#include <cstdint>
#include <span>

#include "reprise/device/kernel.h"
#include "reprise/tensor/dtype.h"

namespace reprise::kernels::cuda {

/// FlashInfer's decode attention for one type and shape, for batches with one token per request.
/// Like the project's own planned attention, it is two launches with PlannedAttentionArguments.
struct FlashInferDecode {
  DType dtype = DType::bf16;
  int64_t head_dim = 0;
  int64_t group_size = 0;  // query heads per key/value head
  const device::Kernel* decode = nullptr;
  const device::Kernel* merge = nullptr;
};

/// FlashInfer's attention for one type and size of heads, with CudaAttentionArguments.
struct FlashInferHeads {
  DType dtype = DType::bf16;
  int64_t head_dim = 0;
  /// The contract of the project's kernels for decoding, with
  /// AttentionDivision::by_context_in_small.
  const device::Kernel* decode = nullptr;
};

/// FlashInfer's attention of prompts for one type and size of heads, with CudaAttentionArguments.
/// The grid is max_tiles * heads, and a tile has `tile_tokens` tokens of a request. There are no
/// windows. Only compute capability 9.0 has the code.
struct FlashInferPromptKernel {
  DType dtype = DType::bf16;
  int64_t head_dim = 0;
  int64_t tile_tokens = 0;
  const device::Kernel* kernel = nullptr;
};

struct FlashInferKernels {
  std::span<const FlashInferDecode> planned;  // for attention plans
  std::span<const FlashInferHeads> heads;     // for all other attention
  std::span<const FlashInferPromptKernel> prompts;
};

/// All FlashInfer kernels. Empty unless the build has FlashInfer's headers (REPRISE_FLASHINFER);
/// `prompts` also if it has no code for sm_90a.
[[nodiscard]] FlashInferKernels flashinfer_kernels();
/// The same, also in a build without their code. For tests over a driver that has other code.
[[nodiscard]] FlashInferKernels declared_flashinfer_kernels();

}  // namespace reprise::kernels::cuda
