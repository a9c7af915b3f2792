#include "reprise/compile/model/extension_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <system_error>

#include "reprise/base/error.h"
#include "reprise/base/shared_library.h"

namespace reprise::compile {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view reason) {
  throw InvalidArgument(fmt::format("extension {}: {}", path.string(), reason));
}

}  // namespace

void load_extension(const std::filesystem::path& path, Extensions& extensions) {
  std::error_code failed;
  // A name without a folder would be searched in the folders of system libraries.
  const std::filesystem::path file = std::filesystem::canonical(path, failed);
  if (failed) refuse(path, failed.message());
  if (const std::string reason = why_not_loadable(file); !reason.empty()) refuse(path, reason);
  // RTLD_NODELETE: programs, graphs and exceptions may refer to code of the library at any time.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) refuse(path, dlerror());
  auto* entry = reinterpret_cast<ExtensionEntry>(dlsym(library, kExtensionEntry));
  dlclose(library);
  if (entry == nullptr) refuse(path, fmt::format("has no function {}()", kExtensionEntry));
  if (!entry(kExtensionVersion, extensions)) {
    refuse(path, "was built for another version of Reprise; build both from one tree");
  }
}

}  // namespace reprise::compile
