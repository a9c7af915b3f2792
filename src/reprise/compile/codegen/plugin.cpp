#include "reprise/compile/codegen/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <system_error>

#include "reprise/base/shared_library.h"

namespace reprise::compile {
namespace {

namespace fs = std::filesystem;

CodegenPlugin refused(const fs::path& path, const std::string& reason) {
  return {.reason = fmt::format("{}: {}", path.string(), reason)};
}

CodegenPlugin load(const fs::path& path, kernels::Isa isa) {
  if (const std::string reason = why_not_loadable(path); !reason.empty()) {
    return refused(path, reason);
  }
  // RTLD_LOCAL hides this LLVM from other libraries. RTLD_NODELETE: LLVM cannot be unloaded safely.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return refused(path, dlerror());
  auto* entry = reinterpret_cast<PluginEntry>(dlsym(library, kPluginEntry));
  CompilerInterface* compiler = entry == nullptr ? nullptr : entry(kPluginVersion, isa);
  dlclose(library);
  if (compiler == nullptr) {
    return refused(path, "is of another version of Reprise; build both from one tree");
  }
  return {.compiler = std::unique_ptr<CompilerInterface>(compiler)};
}

}  // namespace

CodegenPlugin load_codegen_plugin(std::span<const fs::path> paths, kernels::Isa isa) {
  std::string looked_in;
  for (const fs::path& path : paths) {
    std::error_code ignored;
    if (fs::exists(path, ignored)) return load(path, isa);
    looked_in += (looked_in.empty() ? "" : ", ") + path.string();
  }
  return {.reason = fmt::format("no code generation plug-in at {}; it is built where LLVM 19 is "
                                "installed (Debian: llvm-19-dev)",
                                looked_in)};
}

std::vector<fs::path> default_codegen_plugin_paths() { return plugin_paths(kPluginFileName); }

}  // namespace reprise::compile
