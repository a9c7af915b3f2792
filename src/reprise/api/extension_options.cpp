#include "reprise/api/extension_options.h"

#include <string>

#include "reprise/api/compile_runner.h"
#include "reprise/compile/model/extension_plugin.h"
#include "reprise/kernels/isa.h"
#include "reprise/program/cpu_code_loader.h"

namespace reprise::api {
namespace {

// The folder for the files of a compiler of the user; empty: there is no cache.
std::filesystem::path folder_of_compiler(const EngineArgs& args,
                                         const config::CompilationConfig& config) {
  if (args.disable_compile_cache || is_compile_cache_disabled()) return {};
  const std::filesystem::path root = config.cache_dir.empty()
                                         ? compile_cache_root(args.compile_cache_root)
                                         : std::filesystem::path(config.cache_dir);
  return root.empty() ? root : root / "compilers" / config.backend;
}

}  // namespace

config::ExtensionNames extension_names(const EngineArgs& args) {
  if (args.extensions == nullptr) return {};
  return {.passes = args.extensions->pass_names(), .compilers = args.extensions->compiler_names()};
}

std::optional<compile::CodeGenerator> choose_code_generator(
    const EngineArgs& args, const EngineDevice& device, const config::CompilationConfig& config) {
  const compile::UserCompiler* of_user =
      args.extensions == nullptr ? nullptr : args.extensions->find_compiler(config.backend);
  if (of_user == nullptr) return device.code_generator();
  const bool is_gpu = device.is_gpu();
  return compile::user_code_generator(
      *of_user,
      is_gpu ? std::string_view(device.code_target.architecture) : kernels::isa_name(device.isa),
      is_gpu ? *device.code_target.loader : program::cpu_code_loader(),
      folder_of_compiler(args, config));
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
