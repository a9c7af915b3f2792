#include "reprise/compile/model/code_generator.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "reprise/compile/codegen/codegen_target.h"
#include "reprise/compile/codegen/nvrtc/nvrtc_compiler.h"
#include "reprise/program/cpu_code_loader.h"

namespace reprise::compile {
namespace {

CodegenPlugin create_nvrtc(const LoadedNvrtc& nvrtc,
                           const std::string& architecture,
                           const std::string& identity) {
  if (!nvrtc.reason.empty()) return {.compiler = nullptr, .reason = nvrtc.reason};
  try {
    auto compiler = create_nvrtc_compiler(nvrtc.api, architecture);
    if (const std::string found = compiler->compute_hash(); found != identity) {
      return {
          .compiler = nullptr,
          .reason = fmt::format("the machine has {}, and this build's kernels, whose bits the code "
                                "must have, are of {}: install that NVRTC, or build with this one",
                                found,
                                identity)};
    }
    return {.compiler = std::move(compiler), .reason = {}};
  } catch (const CodegenError& error) {
    return {.compiler = nullptr, .reason = error.what()};
  }
}

}  // namespace

std::optional<CodeGenerator> cpu_code_generator(kernels::Isa isa) {
  for (const std::filesystem::path& path : default_codegen_plugin_paths()) {
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    return CodeGenerator{.name = "llvm",
                         .identity = codegen_identity(isa),
                         .create = [path, isa] { return load_codegen_plugin({&path, 1}, isa); },
                         .loader = &program::cpu_code_loader()};
  }
  return std::nullopt;
}

CodeGenerator cuda_code_generator(std::string architecture,
                                  const device::CodeLoader& loader,
                                  std::function<LoadedNvrtc()> open) {
  std::string identity = nvrtc_identity(nvrtc_build_version(), architecture);
  return {.name = "nvrtc",
          .identity = identity,
          .create =
              [architecture = std::move(architecture), identity, open = std::move(open)] {
                return create_nvrtc(open(), architecture, identity);
              },
          .loader = &loader};
}

}  // namespace reprise::compile
