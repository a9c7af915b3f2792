#pragma once

#include "reprise/device/code_loader.h"

namespace reprise::program {

/// Loads objects for this process's own processor: see ObjectCode.
[[nodiscard]] const device::CodeLoader& cpu_code_loader();

}  // namespace reprise::program
