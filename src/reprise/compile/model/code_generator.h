#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "reprise/compile/codegen/nvrtc/nvrtc_api.h"
#include "reprise/compile/codegen/plugin.h"
#include "reprise/compile/model/extensions.h"
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
  std::shared_ptr<const device::CodeLoader> owned_loader = nullptr;  // `loader`, if it is owned
};

/// Returns LLVM's plug-in for this processor; nullopt in a build without the plug-in.
[[nodiscard]] std::optional<CodeGenerator> cpu_code_generator(kernels::Isa isa);

/// NVRTC for GPUs of this architecture ("sm_90"). Only create() checks that the machine has NVRTC,
/// in the version with which this build's kernels were compiled.
[[nodiscard]] CodeGenerator cuda_code_generator(std::string architecture,
                                                const device::CodeLoader& loader,
                                                std::function<LoadedNvrtc()> open = load_nvrtc);

/// Returns a compiler of a user, for code of this target. One object compiles and loads, and uses
/// `cache_directory` as CompilerInterface::initialize_cache() describes. Throws the exceptions of
/// the compiler.
[[nodiscard]] CodeGenerator user_code_generator(const UserCompiler& compiler,
                                                std::string_view target,
                                                const device::CodeLoader& device_loader,
                                                const std::filesystem::path& cache_directory);

}  // namespace reprise::compile
