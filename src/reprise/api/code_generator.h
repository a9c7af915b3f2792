#pragma once

#include <functional>
#include <optional>
#include <string>

#include "reprise/compile/codegen/nvrtc/nvrtc_api.h"
#include "reprise/compile/codegen/plugin.h"
#include "reprise/device/code_loader.h"
#include "reprise/kernels/isa.h"

namespace reprise::api {

/// What makes code of row groups for an engine's device. Each start asks who it is, to look for
/// code that was kept; it is brought into the process when there is something to compile.
struct CodeGenerator {
  std::string name;      // "llvm", "nvrtc"
  std::string identity;  // all that decides its code: compute_hash() of its compiler
  std::function<compile::CodegenPlugin()> create;
  const device::CodeLoader* loader = nullptr;  // of the device; owned by whoever made this
};

/// LLVM's plug-in, for this processor; nothing in a build without it.
[[nodiscard]] std::optional<CodeGenerator> cpu_code_generator(kernels::Isa isa);

/// NVRTC, for GPUs of this architecture ("sm_90"). Whether the machine has it, and of the version
/// that this build's kernels have, create() finds out.
[[nodiscard]] CodeGenerator cuda_code_generator(
    std::string architecture,
    const device::CodeLoader& loader,
    std::function<compile::LoadedNvrtc()> open = compile::load_nvrtc);

}  // namespace reprise::api
