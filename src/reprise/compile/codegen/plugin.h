#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/kernels/isa.h"

namespace reprise::compile {

/// A compiler, or why there is none.
struct CodegenPlugin {
  std::unique_ptr<CompilerInterface> compiler;
  std::string reason;  // empty if there is one
};

/// Loads the plug-in that generates code for CPUs, from the first of these paths where it is. It
/// brings LLVM into the process (some 50 MB), so ask for it only when there is something to
/// compile; once loaded it stays. Not there is an answer, not an error: a machine without LLVM
/// works, slower.
[[nodiscard]] CodegenPlugin load_codegen_plugin(std::span<const std::filesystem::path> paths,
                                                kernels::Isa isa);

/// Where it is looked for: next to the running executable and next to the library that this code is
/// part of, and in ../lib of both.
[[nodiscard]] std::vector<std::filesystem::path> default_codegen_plugin_paths();

/// What the plug-in and its loader agree on. Both are built from one tree; a plug-in of another one
/// says so instead of crashing.
inline constexpr uint32_t kPluginVersion = 2;
inline constexpr const char* kPluginFileName = "reprise_codegen_llvm.so";
inline constexpr const char* kPluginEntry = "reprise_create_compiler";
/// nullptr if `version` is not its kPluginVersion; else the caller owns the compiler.
using PluginEntry = CompilerInterface* (*)(uint32_t version, kernels::Isa isa);

}  // namespace reprise::compile
