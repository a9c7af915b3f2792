#pragma once

#include <cstdint>
#include <memory>

#include "reprise/device/code_loader.h"
#include "reprise/device/device.h"

namespace reprise::device::cuda {

/// Creates a loader of cubins for a GPU. Their kernels take one argument struct, use only static
/// shared memory, are launched with `threads_per_block`, and wait for the previous kernel by
/// themselves, as with CudaKernelCode::Start::early_if_asked. `device`: a CUDA device, borrowed.
[[nodiscard]] std::unique_ptr<CodeLoader> create_cubin_loader(Device& device,
                                                              uint32_t threads_per_block);

}  // namespace reprise::device::cuda
