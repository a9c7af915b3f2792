#include "reprise/api/loading/model_programs.h"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "reprise/api/loading/compile_runner.h"
#include "reprise/api/loading/engine_device.h"
#include "reprise/api/options/cache_folders.h"
#include "reprise/api/options/rank_options.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/compile/model/code_generator.h"
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

// The compiler of the user that `backend` names, else the device's own. nullopt: there is none.
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

}  // namespace

void ModelPrograms::compile(LoadedEngine& engine, runner::ModelRunner& runner) {
  if (engine.options->graphs.compilation_mode == config::CompilationMode::NONE) return;
  const auto start = std::chrono::steady_clock::now();
  if (!base_) base_ = create(engine, part_);
  compile_runner(*base_, runner, runner::ForwardKind::base);
  if (runner.has_adapters()) {
    if (!with_adapters_) with_adapters_ = create(engine, "adapters");
    compile_runner(*with_adapters_, runner, runner::ForwardKind::adapters);
  }
  engine.report.compile_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::unique_ptr<compile::ModelCompiler> ModelPrograms::create(const LoadedEngine& engine,
                                                              std::string part) const {
  const EngineArgs& args = engine.args;
  const ResolvedOptions& options = *engine.options;
  EngineDevice& device = *engine.device;
  return std::make_unique<compile::ModelCompiler>(compile::ModelCompilerOptions{
      .asked = options.graph_inputs.compilation,
      .resolved = options.graphs,
      .isa = options.isa,
      .generator = choose_code_generator(args, device, options.graph_inputs.compilation),
      .extensions = args.extensions,
      .norm_prologue_max_token_num = device.execution->executor().norm_prologue_max_token_num(),
      .rank = rank_index(args),
      .tensor_parallel_size = args.tensor_parallel_size,
      .tensor_rank = rank_of_model(args).tensor_rank(),
      .part = std::move(part),
      .cache_root = compile_cache_root(args.compile_cache_root),
      .disable_cache = args.disable_compile_cache || is_compile_cache_disabled(),
      .keep_stages = keeps_stages_});
}

void ModelPrograms::reset() noexcept {
  base_.reset();
  with_adapters_.reset();
}

void ModelPrograms::report_to(StartupReport& report) const {
  if (!base_) return;
  report.compilation = base_->report();
  append_warnings(report.warnings, base_->warnings());
  if (with_adapters_) append_warnings(report.warnings, with_adapters_->warnings());
}

compile::CompilationStages ModelPrograms::take_stages() {
  return base_ ? std::move(base_->stages()) : compile::CompilationStages{};
}

}  // namespace reprise::api
