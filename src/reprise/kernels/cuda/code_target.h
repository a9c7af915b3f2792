#pragma once

#include "reprise/kernels/accelerator.h"

namespace reprise::kernels::cuda {

/// The target for code of row groups: the architecture of the GPU, and a loader of cubins. `device`
/// is a CUDA device and must outlive the loader. \throws DeviceError
[[nodiscard]] CodeTarget create_code_target(device::Device& device);

}  // namespace reprise::kernels::cuda
