#include "reprise/compile/codegen/nvrtc/nvrtc_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace reprise::compile {
namespace {

// The newest version first. The last name is that of the file in a toolkit's own folder.
constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

}  // namespace

LoadedNvrtc load_nvrtc() {
  LoadedNvrtc loaded;
  void* library = nullptr;
  for (const char* name : kNames) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    loaded.reason = dlerror();
    return loaded;
  }
  const auto find = [&](auto& function, const char* symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (function == nullptr) loaded.reason = fmt::format("libnvrtc has no {}", symbol);
  };
  find(loaded.api.version, "nvrtcVersion");
  find(loaded.api.error_string, "nvrtcGetErrorString");
  find(loaded.api.create, "nvrtcCreateProgram");
  find(loaded.api.destroy, "nvrtcDestroyProgram");
  find(loaded.api.compile, "nvrtcCompileProgram");
  find(loaded.api.log_size, "nvrtcGetProgramLogSize");
  find(loaded.api.log, "nvrtcGetProgramLog");
  find(loaded.api.cubin_size, "nvrtcGetCUBINSize");
  find(loaded.api.cubin, "nvrtcGetCUBIN");
  return loaded;
}

}  // namespace reprise::compile
