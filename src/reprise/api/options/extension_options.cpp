#include "reprise/api/options/extension_options.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "reprise/compile/model/extension_plugin.h"

namespace reprise::api {

config::ExtensionNames extension_names(const EngineArgs& args) {
  if (args.extensions == nullptr) return {};
  return {.passes = args.extensions->pass_names(), .compilers = args.extensions->compiler_names()};
}

void load_extension_files(EngineArgs& args) {
  if (args.extension_files.empty()) return;
  compile::Extensions all;
  if (args.extensions != nullptr) all = *args.extensions;
  for (const std::filesystem::path& file : args.extension_files) {
    compile::load_extension(file, all);
  }
  args.extensions = std::make_shared<const compile::Extensions>(std::move(all));
  args.extension_files.clear();
}

}  // namespace reprise::api
