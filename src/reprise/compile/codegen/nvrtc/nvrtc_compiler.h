#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/compile/codegen/nvrtc/nvrtc_api.h"

namespace reprise::compile {

/// Compiles row groups with NVRTC for one GPU architecture. compile() returns a cubin with one
/// kernel for each source. The kernels have kernels::kRowGroupThreads threads and static shared
/// memory.
///
/// `api` is copied; the library stays open. `architecture` is NVRTC's name, such as "sm_90". A
/// cubin runs on GPUs of the same major version and the same or a higher minor version.
[[nodiscard]] std::unique_ptr<CompilerInterface> create_nvrtc_compiler(const NvrtcApi& api,
                                                                       std::string architecture);

/// The same text as compute_hash() of that compiler with this version of NVRTC ("13.0"). With it,
/// an engine that starts from the cache finds its generated code without opening NVRTC.
[[nodiscard]] std::string nvrtc_identity(std::string_view version, std::string_view architecture);

/// The version of the CUDA toolkit that compiled this build's kernels, such as "13.0"; empty in a
/// build without them. Generated code gives the same bits as the kernels only if NVRTC has the same
/// version, because exp() comes from the toolkit.
[[nodiscard]] std::string_view nvrtc_build_version() noexcept;

}  // namespace reprise::compile
