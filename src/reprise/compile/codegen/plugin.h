#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/kernels/isa.h"

namespace reprise::compile {

/// A compiler or, without one, the reason.
struct CodegenPlugin {
  std::unique_ptr<CompilerInterface> compiler;
  std::string reason;  // empty if there is a compiler
};

/// Loads the plug-in that generates CPU code, from the first of `paths` that exists. The plug-in
/// loads LLVM into the process (about 50 MB) and is never unloaded, so call this only if there is
/// something to compile. A missing plug-in is not an error: the engine also works without it, but
/// slower.
[[nodiscard]] CodegenPlugin load_codegen_plugin(std::span<const std::filesystem::path> paths,
                                                kernels::Isa isa);

/// The paths that are searched: the folder of the running executable, the folder of the library
/// that contains this code, and ../lib of both.
[[nodiscard]] std::vector<std::filesystem::path> default_codegen_plugin_paths();

/// The version of the interface between plug-in and loader. A plug-in with another version is
/// rejected with a message, because calling it could crash.
inline constexpr uint32_t kPluginVersion = 3;
inline constexpr const char* kPluginFileName = "reprise_codegen_llvm.so";
inline constexpr const char* kPluginEntry = "reprise_create_compiler";
/// Creates a compiler, which the caller owns. Returns nullptr if `version` is not the plug-in's
/// kPluginVersion.
using PluginEntry = CompilerInterface* (*)(uint32_t version, kernels::Isa isa);

}  // namespace reprise::compile
