#pragma once

#include <cstdint>
#include <span>

#include "reprise/device/kernel.h"
#include "reprise/tensor/dtype.h"

namespace reprise::kernels::cuda {

/// FlashInfer's decode attention, for one type and shape: two launches over
/// PlannedAttentionArguments, as our own planned kernels, of batches with one token per request.
struct FlashInferKernels {
  DType dtype = DType::bf16;
  int64_t head_dim = 0;
  int64_t group_size = 0;  // query heads per key/value head
  const device::Kernel* decode = nullptr;
  const device::Kernel* merge = nullptr;
};

/// All there are; none unless this was built with FlashInfer's headers (REPRISE_FLASHINFER).
[[nodiscard]] std::span<const FlashInferKernels> flashinfer_kernels();

}  // namespace reprise::kernels::cuda
