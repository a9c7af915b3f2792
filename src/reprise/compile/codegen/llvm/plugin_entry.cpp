#include "reprise/compile/codegen/llvm/llvm_compiler.h"
#include "reprise/compile/codegen/plugin.h"

/// See PluginEntry.
extern "C" __attribute__((visibility("default"))) reprise::compile::CompilerInterface*
reprise_create_compiler(uint32_t version, reprise::kernels::Isa isa) {
  using namespace reprise::compile;
  return version == kPluginVersion ? new LlvmCompiler(isa) : nullptr;
}
