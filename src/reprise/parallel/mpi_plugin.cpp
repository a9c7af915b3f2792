#include "reprise/parallel/mpi_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "reprise/base/shared_library.h"

namespace reprise::parallel {
namespace {

namespace fs = std::filesystem;

LoadedTransport load_transport(const fs::path& path) {
  LoadedTransport loaded;
  if (const std::string reason = why_not_loadable(path); !reason.empty()) {
    loaded.reason = fmt::format("{}: {}", path.string(), reason);
    return loaded;
  }
  // GLOBAL: the components that Open MPI loads by itself look for its symbols. NODELETE: MPI cannot
  // be unloaded.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (library == nullptr) {
    loaded.reason = fmt::format("{}: {}", path.string(), dlerror());
    return loaded;
  }
  auto* entry = reinterpret_cast<TransportEntry>(dlsym(library, kTransportEntry));
  dlclose(library);
  if (entry == nullptr) {
    loaded.reason = fmt::format("{}: is not a plug-in of Reprise", path.string());
    return loaded;
  }
  loaded.transport.reset(entry(kTransportVersion, loaded.reason));
  return loaded;
}

}  // namespace

LoadedTransport load_mpi_plugin(std::span<const fs::path> paths) {
  for (const fs::path& path : paths) {
    std::error_code ignored;
    if (fs::exists(path, ignored)) return load_transport(path);
  }
  return {.transport = nullptr, .reason = missing_mpi_text()};
}

bool has_mpi_plugin(std::span<const fs::path> paths) {
  return std::ranges::any_of(paths, [](const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
  });
}

std::vector<fs::path> default_mpi_plugin_paths() { return plugin_paths(kMpiPluginFileName); }

std::string missing_mpi_text() {
  return fmt::format(
      "this build has no {}, because Open MPI was not found when it was built; install it (Debian: "
      "libopenmpi-dev and openmpi-bin) and build again",
      kMpiPluginFileName);
}

}  // namespace reprise::parallel
