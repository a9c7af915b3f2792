#include "reprise/kernels/kernel_table.h"

namespace reprise::kernels {

// The linker takes this function where a program does not have the one of amx_software.cpp.
AmxSoftwareTables amx_software_tables() noexcept { return {}; }

}  // namespace reprise::kernels
