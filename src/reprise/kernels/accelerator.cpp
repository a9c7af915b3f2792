#include "reprise/kernels/accelerator.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <system_error>

#include "reprise/base/shared_library.h"

namespace reprise::kernels {
namespace {

namespace fs = std::filesystem;

LoadedAccelerator load(const fs::path& path) {
  LoadedAccelerator loaded{.accelerator = nullptr, .reason = {}, .has_plugin = true};
  if (const std::string reason = why_not_loadable(path); !reason.empty()) {
    loaded.reason = fmt::format("{}: {}", path.string(), reason);
    return loaded;
  }
  // RTLD_LOCAL: most of the plug-in's symbols are in the executable, too. RTLD_NODELETE: a driver
  // cannot be unloaded.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    loaded.reason = fmt::format("{}: {}", path.string(), dlerror());
    return loaded;
  }
  auto* entry = reinterpret_cast<AcceleratorEntry>(dlsym(library, kAcceleratorEntry));
  dlclose(library);
  if (entry == nullptr) {
    loaded.reason = fmt::format("{}: is not a plug-in of Reprise", path.string());
    return loaded;
  }
  loaded.accelerator.reset(entry(kAcceleratorVersion, loaded.reason));
  return loaded;
}

}  // namespace

LoadedAccelerator load_cuda_plugin(std::span<const fs::path> paths) {
  for (const fs::path& path : paths) {
    std::error_code ignored;
    if (fs::exists(path, ignored)) return load(path);
  }
  return {
      .accelerator = nullptr,
      .reason = fmt::format("this build has no {}; scripts/quickstart.sh --cuda builds it where "
                            "the nvcc of CUDA 13 or newer is installed",
                            kCudaPluginFileName),
      .has_plugin = false};
}

std::vector<fs::path> default_cuda_plugin_paths() { return plugin_paths(kCudaPluginFileName); }

bool has_cuda_driver() {
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return false;
  dlclose(library);
  return true;
}

}  // namespace reprise::kernels
