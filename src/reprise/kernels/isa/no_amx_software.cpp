#include "reprise/kernels/kernel_table.h"

namespace reprise::kernels {

// The linker uses this function in programs that do not contain the function of amx_software.cpp.
AmxSoftwareTables amx_software_tables() noexcept { return {}; }

}  // namespace reprise::kernels
