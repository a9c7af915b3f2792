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

/// Lets several owners use one compiler of a user.
class SharedCompiler final : public CompilerInterface {
 public:
  explicit SharedCompiler(std::shared_ptr<CompilerInterface> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] CodegenFileSuffixes suffixes() const noexcept override {
    return inner_->suffixes();
  }
  [[nodiscard]] std::string compute_hash() const override { return inner_->compute_hash(); }
  [[nodiscard]] std::optional<std::string> why_not(const program::Program& body) const override {
    return inner_->why_not(body);
  }
  [[nodiscard]] std::vector<std::byte> compile(std::span<const RowGroupSource> sources) override {
    return inner_->compile(sources);
  }
  [[nodiscard]] CodegenListing list(std::span<const RowGroupSource> sources) override {
    return inner_->list(sources);
  }

 private:
  std::shared_ptr<CompilerInterface> inner_;
};

/// Loads code by a compiler of a user.
class CompilerLoader final : public device::CodeLoader {
 public:
  CompilerLoader(std::shared_ptr<CompilerInterface> compiler, const device::CodeLoader& device)
      : compiler_(std::move(compiler)), device_(&device) {}

  [[nodiscard]] std::unique_ptr<device::LoadedCode> load(
      std::span<const std::byte> object, std::span<const std::string> functions) const override {
    std::unique_ptr<device::LoadedCode> code = compiler_->load(object, functions, *device_);
    if (code == nullptr) {
      throw device::CodeLoadError(
          fmt::format("compiler {}: load() gave no code", compiler_->name()));
    }
    return code;
  }

 private:
  std::shared_ptr<CompilerInterface> compiler_;
  const device::CodeLoader* device_;  // of the engine's device
};

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

CodeGenerator user_code_generator(const UserCompiler& compiler,
                                  std::string_view target,
                                  const device::CodeLoader& device_loader,
                                  const std::filesystem::path& cache_directory) {
  const std::shared_ptr<CompilerInterface> made = compiler.create(target);
  if (made == nullptr) {
    const std::string reason =
        fmt::format("compiler {} makes no code for {}", compiler.name, target);
    return {.name = compiler.name,
            .identity = reason,
            .create = [reason] { return CodegenPlugin{.compiler = nullptr, .reason = reason}; },
            .loader = &device_loader};
  }
  made->initialize_cache(cache_directory);
  auto loader = std::make_shared<const CompilerLoader>(made, device_loader);
  return {.name = compiler.name,
          .identity = fmt::format("{}: {}", compiler.name, made->compute_hash()),
          .create =
              [made] {
                return CodegenPlugin{.compiler = std::make_unique<SharedCompiler>(made),
                                     .reason = {}};
              },
          .loader = loader.get(),
          .owned_loader = loader};
}

}  // namespace reprise::compile
