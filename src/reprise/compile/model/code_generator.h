#pragma once

#include <functional>
#include <optional>
#include <string>

#include "reprise/compile/codegen/nvrtc/nvrtc_api.h"
#include "reprise/compile/codegen/plugin.h"
#include "reprise/device/code_loader.h"
#include "reprise/kernels/isa.h"

namespace reprise::compile {

/// Generates code of row groups for an engine's device. Each start reads its identity, to find
/// cached code; `create` loads the generator into the process when there is something to compile.
struct CodeGenerator {
  std::string name;      // "llvm", "nvrtc"
  std::string identity;  // everything that decides its code: compute_hash() of its compiler
  std::function<CodegenPlugin()> create;
  const device::CodeLoader* loader = nullptr;  // of the device; borrowed
};

/// LLVM's plug-in, for this processor; nullopt in a build without the plug-in.
[[nodiscard]] std::optional<CodeGenerator> cpu_code_generator(kernels::Isa isa);

/// NVRTC, for GPUs of this architecture ("sm_90"). create() finds out whether the machine has NVRTC
/// in the version that this build's kernels were made with.
[[nodiscard]] CodeGenerator cuda_code_generator(std::string architecture,
                                                const device::CodeLoader& loader,
                                                std::function<LoadedNvrtc()> open = load_nvrtc);

}  // namespace reprise::compile
