#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/compile/codegen/nvrtc/nvrtc_api.h"

namespace reprise::compile {

/// Compiles row groups for one GPU architecture with NVRTC. compile() returns a cubin with one
/// kernel for each source, of kernels::kRowGroupThreads threads and with static shared memory.
///
/// `api` is copied; its library stays open. `architecture`: NVRTC's name, "sm_90"; a cubin runs on
/// GPUs of the same major version with the same or a higher minor version.
[[nodiscard]] std::unique_ptr<CompilerInterface> create_nvrtc_compiler(const NvrtcApi& api,
                                                                       std::string architecture);

/// The result of compute_hash() of that compiler for this version of NVRTC ("13.0"). A warm start
/// finds its cached code with it and need not open NVRTC.
[[nodiscard]] std::string nvrtc_identity(std::string_view version, std::string_view architecture);

/// The version of the toolkit that compiled the kernels of this build, "13.0"; empty in a build
/// without them. Generated code has the same bits as the kernels only if NVRTC has the same
/// version, because exponentials come from the toolkit.
[[nodiscard]] std::string_view nvrtc_build_version() noexcept;

}  // namespace reprise::compile
