#pragma once

#include <memory>
#include <string>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/compile/codegen/nvrtc/nvrtc_api.h"

namespace reprise::compile {

/// Compiles row groups for one GPU architecture by NVRTC: what compile() returns is a cubin, with a
/// kernel of kRowGroupThreads threads and static shared memory for each source.
///
/// `api` by value; its library stays open. `compute_capability`: 80 for sm_80. Architecture specific
/// features are not used, so a cubin runs on every chip of its major version from this one on.
[[nodiscard]] std::unique_ptr<CompilerInterface> create_nvrtc_compiler(const NvrtcApi& api,
                                                                       int compute_capability);

}  // namespace reprise::compile
