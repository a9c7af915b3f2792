#pragma once

#include <cstdint>
#include <memory>

#include "reprise/device/code_loader.h"
#include "reprise/device/device.h"

namespace reprise::device::cuda {

/// Loads cubins on a GPU. Their kernels take one argument struct, have only static shared memory,
/// are launched with `threads_per_block`, and wait for the previous kernel in the way that
/// CudaDeviceOptions::programmatic_image describes. `device`: a CUDA device, borrowed.
[[nodiscard]] std::unique_ptr<CodeLoader> create_cubin_loader(Device& device,
                                                              uint32_t threads_per_block);

}  // namespace reprise::device::cuda
