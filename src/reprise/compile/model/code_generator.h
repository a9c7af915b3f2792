#pragma once

#include <functional>
#include <optional>
#include <string>

#include "reprise/compile/codegen/nvrtc/nvrtc_api.h"
#include "reprise/compile/codegen/plugin.h"
#include "reprise/device/code_loader.h"
#include "reprise/kernels/isa.h"

namespace reprise::compile {

/// Generates code for row groups on an engine's device. Each start reads `identity`, which is part
/// of the cache key. Only if something must be compiled, `create` loads the generator into the
/// process.
struct CodeGenerator {
  std::string name;  // "llvm", "nvrtc"
  // Everything that its generated code depends on: compute_hash() of the compiler.
  std::string identity;
  std::function<CodegenPlugin()> create;
  const device::CodeLoader* loader = nullptr;  // loads the generated code on the device; borrowed
};

/// LLVM's plug-in for this processor; nullopt in a build without the plug-in.
[[nodiscard]] std::optional<CodeGenerator> cpu_code_generator(kernels::Isa isa);

/// NVRTC for GPUs of this architecture ("sm_90"). Only create() checks that the machine has NVRTC,
/// in the version with which this build's kernels were compiled.
[[nodiscard]] CodeGenerator cuda_code_generator(std::string architecture,
                                                const device::CodeLoader& loader,
                                                std::function<LoadedNvrtc()> open = load_nvrtc);

}  // namespace reprise::compile
