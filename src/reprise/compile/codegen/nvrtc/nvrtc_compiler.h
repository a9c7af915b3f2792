#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/compile/codegen/nvrtc/nvrtc_api.h"

namespace reprise::compile {

/// Compiles row groups for one GPU architecture by NVRTC: what compile() returns is a cubin, with a
/// kernel of kernels::kRowGroupThreads threads and static shared memory for each source.
///
/// `api` by value; its library stays open. `architecture`: as NVRTC names it, "sm_90"; a cubin runs
/// on chips of its major version from this one on.
[[nodiscard]] std::unique_ptr<CompilerInterface> create_nvrtc_compiler(const NvrtcApi& api,
                                                                       std::string architecture);

/// What compute_hash() of that compiler says where NVRTC is of this version ("13.0"): what a warm
/// start, which does not open NVRTC, looks for.
[[nodiscard]] std::string nvrtc_identity(std::string_view version, std::string_view architecture);

/// Of the toolkit that compiled the kernels of this build, "13.0"; empty in a build without them.
/// Generated code has their bits if NVRTC is of the same version: exponentials are the toolkit's.
[[nodiscard]] std::string_view nvrtc_build_version() noexcept;

}  // namespace reprise::compile
