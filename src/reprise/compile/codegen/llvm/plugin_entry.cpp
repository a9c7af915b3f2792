#include <cstdint>
#include <random>

#include "reprise/compile/codegen/llvm/llvm_compiler.h"
#include "reprise/compile/codegen/plugin.h"

/// See PluginEntry.
extern "C" __attribute__((visibility("default"))) reprise::compile::CompilerInterface*
reprise_create_compiler(uint32_t version, reprise::kernels::Isa isa) {
  using namespace reprise::compile;
  return version == kPluginVersion ? new LlvmCompiler(isa) : nullptr;
}

/// LLVM's archives call this function for names of temporary files, and glibc has it only from 2.36
/// on. With this definition the plug-in, like the program, also runs on glibc 2.34.
extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
  return std::random_device{}();
}
