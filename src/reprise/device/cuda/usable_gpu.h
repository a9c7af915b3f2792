#pragma once

#include <string>
#include <string_view>

#include "reprise/device/cuda/driver_api.h"

namespace reprise::device::cuda {

/// Whether code for these architectures runs on a GPU of a compute capability. `architectures` are
/// those of REPRISE_CUDA_ARCHITECTURES, separated by spaces: machine code for each, and PTX of the
/// first.
[[nodiscard]] bool runs_on(std::string_view architectures, int major, int minor);

/// The reason why this GPU cannot be used, with what to do; empty if it can. Makes no context.
[[nodiscard]] std::string why_not_usable(const DriverApi& api,
                                         int device_index,
                                         std::string_view architectures);

}  // namespace reprise::device::cuda
