#pragma once

#include "reprise/kernels/accelerator.h"

namespace reprise::kernels::cuda {

/// For code of row groups: the GPU's own architecture, and a loader of cubins. `device`: a CUDA
/// device, which must outlive the loader. \throws DeviceError
[[nodiscard]] CodeTarget create_code_target(device::Device& device);

}  // namespace reprise::kernels::cuda
