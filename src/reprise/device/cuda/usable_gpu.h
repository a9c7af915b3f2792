#pragma once

#include <string>
#include <string_view>

#include "reprise/device/cuda/driver_api.h"

namespace reprise::device::cuda {

/// Whether code for these architectures runs on a GPU of a compute capability. `architectures`: the
/// value of REPRISE_CUDA_ARCHITECTURES, with spaces between the architectures: machine code for
/// each, and PTX of the first.
[[nodiscard]] bool runs_on(std::string_view architectures, int major, int minor);

/// Why this GPU cannot be used, and what to do about it; empty if the GPU can be used. Makes no
/// context.
[[nodiscard]] std::string why_not_usable(const DriverApi& api,
                                         int device_index,
                                         std::string_view architectures);

}  // namespace reprise::device::cuda
