#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/kernels/isa.h"

namespace reprise::compile {

/// A compiler, or the reason why there is none.
struct CodegenPlugin {
  std::unique_ptr<CompilerInterface> compiler;
  std::string reason;  // empty if there is a compiler
};

/// Loads the plug-in that generates code for CPUs from the first of `paths` that exists. The
/// plug-in loads LLVM into the process (some 50 MB) and stays loaded, so call this only when there
/// is something to compile. A missing plug-in is a result, not an error: the engine works without
/// it, but slower.
[[nodiscard]] CodegenPlugin load_codegen_plugin(std::span<const std::filesystem::path> paths,
                                                kernels::Isa isa);

/// The paths that are searched: next to the running executable, next to the library that contains
/// this code, and in ../lib of both.
[[nodiscard]] std::vector<std::filesystem::path> default_codegen_plugin_paths();

/// The version of the interface between plug-in and loader. A plug-in of another version is refused
/// with a message instead of crashing.
inline constexpr uint32_t kPluginVersion = 2;
inline constexpr const char* kPluginFileName = "reprise_codegen_llvm.so";
inline constexpr const char* kPluginEntry = "reprise_create_compiler";
/// Returns nullptr if `version` is not the plug-in's kPluginVersion; else the caller owns the
/// compiler.
using PluginEntry = CompilerInterface* (*)(uint32_t version, kernels::Isa isa);

}  // namespace reprise::compile
