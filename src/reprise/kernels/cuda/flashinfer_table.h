#pragma once

#include <cstdint>
#include <span>

#include "reprise/device/kernel.h"
#include "reprise/tensor/dtype.h"

namespace reprise::kernels::cuda {

/// FlashInfer's decode attention for one type and shape, for batches with one token per request.
/// Like the project's own planned attention, it is two launches with PlannedAttentionArguments.
struct FlashInferKernels {
  DType dtype = DType::bf16;
  int64_t head_dim = 0;
  int64_t group_size = 0;  // query heads per key/value head
  const device::Kernel* decode = nullptr;
  const device::Kernel* merge = nullptr;
};

/// All FlashInfer kernels. Empty unless the build has FlashInfer's headers (REPRISE_FLASHINFER).
[[nodiscard]] std::span<const FlashInferKernels> flashinfer_kernels();

}  // namespace reprise::kernels::cuda
