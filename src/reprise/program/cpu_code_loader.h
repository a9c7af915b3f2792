#pragma once

#include "reprise/device/code_loader.h"

namespace reprise::program {

/// The loader of machine code for the CPU that this process runs on. See ObjectCode.
[[nodiscard]] const device::CodeLoader& cpu_code_loader();

}  // namespace reprise::program
