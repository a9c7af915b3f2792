#include "reprise/compile/model/model_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

#include "reprise/base/error.h"
#include "reprise/compile/model/model_cache_key.h"
#include "reprise/compile/model/pass_choice.h"
#include "reprise/compile/model/user_passes.h"
#include "reprise/compile/report/launch_count.h"
#include "reprise/compile/scale_tokens.h"
#include "reprise/kernels/linear/linear_rope_kv_write.h"
#include "reprise/program/cpu_code_loader.h"
#include "reprise/tensor/aliasing.h"

namespace reprise::compile {
namespace {

bool uses_cache(const ModelCompilerOptions& options) {
  // Levels 1 and 2 compile again at each start, as in vLLM.
  return compiles_pieces(options) && !options.disable_cache;
}

CompileCacheOptions cache_options(const ModelCompilerOptions& options) {
  return {.root = options.cache_root,
          .cache_dir = options.asked.cache_dir,
          .rank = options.rank,
          .part = options.part,
          .is_disabled = !uses_cache(options),
          .created_by = fmt::format("reprise {}", sources_hash())};
}

const device::CodeLoader& code_loader(const ModelCompilerOptions& options) {
  const CodeGenerator* generator = code_generator(options);
  return generator != nullptr ? *generator->loader : program::cpu_code_loader();
}

std::vector<const CustomOp*> custom_ops(const ModelCompilerOptions& options) {
  return options.extensions ? options.extensions->ops() : std::vector<const CustomOp*>{};
}

// Adds the conditions that only the kernels and the code generator can check.
void ask_backends(PassOptions& passes, CompilerInterface* code_compiler) {
  // Where products norm their rows, they also quantise them.
  const bool quantises = passes.norm_prologue_max_token_num > 0;
  passes.has_kernel = [quantises](const program::Program& program, const program::Node& node) {
    if (node.op != OpCode::linear_rope_kv_write) return true;
    constexpr size_t kWeight = 1;
    constexpr size_t kCosSin = 4;
    const program::SymShape& cos_sin = program.type(node.inputs[kCosSin]).shape;
    const WeightLayout& weight = program.type(node.inputs[kWeight]).layout;
    if (quantises && activation_form(weight.family) != ActivationForm::elements) return true;
    return kernels::supports_linear_rope_kv_write(cos_sin[1].constant(), weight);
  };
  passes.can_compile = [code_compiler](const program::Program& body) {
    return code_compiler != nullptr && !code_compiler->why_not(body).has_value();
  };
}

CompilationStages make_stages(const ModelCompilerOptions& options,
                              const program::Program& traced,
                              const CompileResult& result) {
  CompilationStages stages{.traced = traced,
                           .before = program::split(traced, splitting_ops(options)),
                           .after = result.program.split,
                           .has_code = {},
                           .reports = result.reports,
                           .object_bytes = result.object.size()};
  for (const auto& groups : result.program.code) {
    std::vector<bool>& has_code = stages.has_code.emplace_back();
    for (const auto& code : groups) has_code.push_back(code != nullptr);
  }
  return stages;
}

}  // namespace

ModelCompiler::ModelCompiler(ModelCompilerOptions options)
    : options_(std::move(options)), cache_(cache_options(options_)) {
  report_.counter.num_models_seen = 1;
  report_.counter.stock_torch_compile_count =
      options_.resolved.compilation_mode == config::CompilationMode::STOCK_TORCH_COMPILE ? 1 : 0;
  warnings_ = switches_without_effect(options_.asked.pass_config);
}

std::optional<program::RangedPrograms> ModelCompiler::compile(const ModelSource& source) {
  if (files_) {
    if (files_->empty()) return std::nullopt;
    return load_programs(*files_, code_loader(options_), custom_ops(options_));
  }
  files_.emplace();
  if (!source.may_be_compiled) {
    report_.refused = kOptedOut;
    return std::nullopt;
  }
  std::optional<TracedModel> model = trace(source);
  if (!model) return std::nullopt;
  report_.traced_launches = num_launches(model->traced.program);
  const CacheKey key = model_cache_key(options_, model->traced.program, model->slots);
  const CodeGenerator* generator = code_generator(options_);
  report_.cache_directory = cache_.entry_directory(key).string();
  report_.backend = generator != nullptr ? generator->name : "eager";
  std::optional<Compiled> compiled = find_cached(key);
  if (!compiled) {
    compiled = compile_now(std::move(*model));
    if (!compiled) return std::nullopt;
    if (compiled->matches_cache_key) save(key, compiled->files);
  }
  // A decode step of one request has one token, so take the program for batches of one token.
  const program::RangedPrograms& programs = compiled->programs;
  report_.compiled_launches =
      num_launches(programs.programs[program::program_for(programs.ranges, 1)]);
  for (std::string& warning : entries_without_effect(options_, programs.programs.front().split)) {
    warnings_.push_back(std::move(warning));
  }
  files_ = std::move(compiled->files);
  return std::move(compiled->programs);
}

// ---- the cache ----

std::optional<ModelCompiler::Compiled> ModelCompiler::find_cached(const CacheKey& key) {
  if (!options_.asked.debug_dump_path.empty()) {
    report_.cache_outcome = "not read, because debug_dump_path needs a compilation";
    return std::nullopt;
  }
  const StageTimer timer(report_.seconds.cache_load);
  LoadOutcome found = cache_.load(key);
  report_.cache_outcome = found.is_hit() ? "hit" : found.reason;
  bool is_broken = found.quarantined || found.miss == MissReason::foreign;
  if (found.is_hit()) {
    try {
      program::RangedPrograms programs =
          load_programs(*found.files, code_loader(options_), custom_ops(options_));
      ++report_.counter.num_compiled_artifacts_loaded;
      return Compiled{.programs = std::move(programs), .files = std::move(*found.files)};
    } catch (const Error& error) {
      // The checksums are right, so the bytes are as they were saved, but this build cannot read
      // them. The cache key should have prevented that.
      report_.cache_outcome = error.what();
      is_broken = true;
    }
  }
  if (is_broken) {
    warnings_.push_back(fmt::format("compile cache: {}; compiling again", report_.cache_outcome));
  }
  return std::nullopt;
}

void ModelCompiler::save(const CacheKey& key, const ProgramFiles& files) {
  const StageTimer timer(report_.seconds.cache_save);
  const SaveOutcome outcome = cache_.save(key, files);
  report_.cache_saved = outcome.saved ? "saved" : outcome.reason;
  report_.counter.num_compiled_artifacts_saved += outcome.saved ? 1 : 0;
  if (!outcome.saved && uses_cache(options_)) {
    warnings_.push_back(
        fmt::format("compile cache: {}; the next start compiles again", outcome.reason));
  }
}

// ---- compiling ----

void ModelCompiler::refuse(const std::string& reason) {
  report_.backend.clear();
  report_.refused = reason;
  warnings_.push_back(fmt::format("{}; running the model's own code (level 0)", reason));
}

void ModelCompiler::warn_without_code(std::string_view reason) {
  report_.backend = "eager";
  warnings_.push_back(fmt::format("code generation: {}; groups run op by op", reason));
}

std::optional<TracedModel> ModelCompiler::trace(const ModelSource& source) {
  const StageTimer timer(report_.seconds.trace);
  try {
    return source.trace();
  } catch (const program::TraceError& error) {
    if (is_level_1(options_) && program::is_about_sizes(error)) {
      report_.backend = "eager";
      report_.guarded = error.what();
    } else {
      refuse(error.what());
    }
  }
  return std::nullopt;
}

program::SplittingOps ModelCompiler::guarded_splitting_ops() const {
  return splitting_ops(options_);
}

std::optional<ModelCompiler::Compiled> ModelCompiler::compile_now(TracedModel model) {
  try {
    run_before_split(options_, model.traced.program);
    return compile_with_fallback(model);
  } catch (const CompileError& error) {
    refuse(error.what());
  }
  return std::nullopt;
}

std::unique_ptr<CompilerInterface> ModelCompiler::create_code_compiler() {
  const CodeGenerator* generator = code_generator(options_);
  if (generator == nullptr) return nullptr;
  const StageTimer timer(report_.seconds.codegen);
  CodegenPlugin plugin = generator->create();
  if (plugin.compiler == nullptr) warn_without_code(plugin.reason);
  return std::move(plugin.compiler);
}

// Compiles with generated code. If that code cannot be generated or loaded, compiles again without.
ModelCompiler::Compiled ModelCompiler::compile_with_fallback(const TracedModel& model) {
  const std::unique_ptr<CompilerInterface> code_compiler = create_code_compiler();
  const CompilationReport before = report_;
  std::string failure;
  try {
    Compiled compiled = compile_all(model, code_compiler.get());
    compiled.matches_cache_key =
        (code_compiler != nullptr) == (code_generator(options_) != nullptr);
    return compiled;
  } catch (const CodegenError& error) {
    failure = error.what();
  } catch (const device::CodeLoadError& error) {
    failure = error.what();
  }
  // The counters of the failed attempt are dropped, because they must describe the programs that
  // run. Its time is kept, because it was spent.
  const CompilationSeconds seconds = report_.seconds;
  report_ = before;
  report_.seconds = seconds;
  warn_without_code(failure);
  Compiled compiled = compile_all(model, nullptr);
  compiled.matches_cache_key = false;
  return compiled;
}

ModelCompiler::Compiled ModelCompiler::compile_all(const TracedModel& model,
                                                   CompilerInterface* code_compiler) {
  Compiled compiled;
  for (const program::TokenRange& range : compile_ranges(options_)) {
    CompileResult result = compile_range(model, range, code_compiler);
    if (options_.keep_stages) stages_ = make_stages(options_, model.traced.program, result);
    add_to(compiled, range, std::move(result));
  }
  add_ranges(compiled.files, compiled.programs.ranges);
  return compiled;
}

CompileResult ModelCompiler::compile_range(const TracedModel& model,
                                           const program::TokenRange& range,
                                           CompilerInterface* code_compiler) {
  PassOptions passes = choose_passes(options_, range, code_compiler != nullptr);
  ask_backends(passes, code_compiler);
  const bool as_traced = stays_as_traced(options_);
  const CompileOptions options{
      .splitting_ops = splitting_ops(options_),
      .wrap_pieces = compiles_pieces(options_),
      .partition_after_passes = partitions_after_passes(options_),
      .pipeline = as_traced ? Pipeline({}) : between_user_passes(options_, make_pipeline(passes)),
      .compiler = code_compiler,
      .loader = &code_loader(options_),
      .plan_memory = !as_traced,
      .can_alias = can_alias};
  program::Program traced = model.traced.program;
  if (range.multiple > 1) scale_tokens(traced, range.multiple);
  return compile_program(
      traced, model.slots, options, report_.counter, report_.seconds, dump_sink(range));
}

void ModelCompiler::add_to(Compiled& compiled,
                           const program::TokenRange& range,
                           CompileResult result) {
  auto& [programs, ranges] = compiled.programs;
  program::Artifact artifact = program::to_artifact(result.program, result.object);
  // Two ranges whose programs have the same bytes share one program. Most ranges do.
  const size_t index = find_program(compiled.files, programs.size(), artifact.program);
  ranges.push_back({.tokens = range, .program = index});
  if (index < programs.size()) return;
  programs.push_back(std::move(result.program));
  add_program(compiled.files, index, std::move(artifact));
  report_.planned_bytes_per_token =
      std::max(report_.planned_bytes_per_token, result.memory.planned_bytes_per_token);
  report_.live_bytes_per_token =
      std::max(report_.live_bytes_per_token, result.memory.live_bytes_per_token);
  std::move(result.reports.begin(), result.reports.end(), std::back_inserter(report_.pass_reports));
}

// Writes dumps to files in debug_dump_path. If a file cannot be written, that is a warning.
DumpSink ModelCompiler::dump_sink(const program::TokenRange& range) {
  std::filesystem::path folder = options_.asked.debug_dump_path;
  if (folder.empty()) return {};
  folder /= rank_folder(options_.rank, options_.part);
  if (range != program::TokenRange{}) {
    const std::string step =
        range.multiple > 1 ? fmt::format("_step_{}", range.multiple) : std::string();
    folder /= fmt::format("tokens_{}_{}{}", range.begin, range.end, step);
  }
  return
      [this, folder, has_failed = false](std::string_view name, std::string_view content) mutable {
        if (has_failed) return;  // warn only once for all files
        const std::filesystem::path path = folder / name;
        std::error_code ignored;
        std::filesystem::create_directories(path.parent_path(), ignored);
        std::ofstream file(path, std::ios::binary);
        file.write(content.data(), static_cast<std::streamsize>(content.size()));
        if (file.flush()) return;
        has_failed = true;
        warnings_.push_back(fmt::format("debug_dump_path: {}: cannot write", path.string()));
      };
}

}  // namespace reprise::compile
