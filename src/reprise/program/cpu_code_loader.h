#pragma once

#include "reprise/device/code_loader.h"

namespace reprise::program {

/// Loads objects for the processor of this process. See ObjectCode.
[[nodiscard]] const device::CodeLoader& cpu_code_loader();

}  // namespace reprise::program
