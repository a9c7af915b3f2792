#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/compile/cache/cache_key.h"
#include "reprise/compile/cache/compile_cache.h"
#include "reprise/compile/compile_program.h"
#include "reprise/compile/model/compilation_report.h"
#include "reprise/compile/model/model_compiler_options.h"
#include "reprise/compile/model/program_files.h"
#include "reprise/program/ranged_programs.h"
#include "reprise/program/split.h"
#include "reprise/program/trace.h"

namespace reprise::compile {

/// A traced model, and for each parameter slot of its program the name of the weight.
struct TracedModel {
  program::TracedProgram traced;
  std::vector<program::ParameterSlot> slots;
};

/// The model to compile. Its runner fills in the functions.
struct ModelSource {
  bool may_be_compiled = true;         // false: the model declares that its own code must run
  std::function<TracedModel()> trace;  // \throws program::TraceError
};

/// The results of each stage of a compilation, for reports. With several token ranges, those of the
/// last range.
struct CompilationStages {
  program::Program traced;
  program::SplitProgram before;  // the traced program, split into pieces
  program::SplitProgram after;   // the program that the engine would run
  /// For each program of `after` and each of its row groups: whether code was generated for it.
  std::vector<std::vector<bool>> has_code;
  // One per program of `after`, or a single one if the passes saw the whole program.
  std::vector<PipelineReport> reports;
  size_t object_bytes = 0;  // of all generated code
};

/// Levels 1 to 3: gets the programs of a model's forward from the compile cache, or by compiling
/// it. Owns the report, the warnings and the cache of this compilation.
///
/// Problems are warnings and not errors. If the model cannot be traced, the engine runs the model's
/// own code. If the cache cannot be used, the model is compiled again. If code cannot be generated
/// or loaded, the ops of row groups run one by one. Belongs to one thread.
class ModelCompiler {
 public:
  /// \pre the level in `options` is not NONE
  explicit ModelCompiler(ModelCompilerOptions options);

  /// The programs for a runner of the model, or nullopt if the runner must use the model's own
  /// code. The first call traces the model, then reads the cache or compiles. Later calls load the
  /// same programs again, for other runners of the same model.
  /// \throws device::CodeLoadError on a later call, and what `source.trace` throws except
  /// program::TraceError
  [[nodiscard]] std::optional<program::RangedPrograms> compile(const ModelSource& source);

  /// Whether compile() gave no programs because the runner must trace each number of tokens (see
  /// ModelRunner::use_guards): level 1 of a model whose program depends on the number.
  [[nodiscard]] bool needs_guards() const noexcept { return !report_.guarded.empty(); }
  /// The ops at which captures of a model that needs guards are interrupted.
  [[nodiscard]] program::SplittingOps guarded_splitting_ops() const;
  [[nodiscard]] const CompilationReport& report() const noexcept { return report_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  /// Filled only if something was compiled and ModelCompilerOptions::keep_stages is set.
  [[nodiscard]] CompilationStages& stages() noexcept { return stages_; }

 private:
  /// Programs that can run, and the same programs as files of a cache entry.
  struct Compiled {
    program::RangedPrograms programs;
    ProgramFiles files;
    // false: the code generator failed, so the programs do not match a key that names it.
    bool matches_cache_key = true;
  };

  [[nodiscard]] std::optional<Compiled> find_cached(const CacheKey& key);
  [[nodiscard]] std::optional<TracedModel> trace(const ModelSource& source);
  [[nodiscard]] std::optional<Compiled> compile_now(TracedModel model);
  [[nodiscard]] Compiled compile_with_fallback(const TracedModel& model);
  [[nodiscard]] Compiled compile_all(const TracedModel& model, CompilerInterface* code_compiler);
  [[nodiscard]] CompileResult compile_range(const TracedModel& model,
                                            const program::TokenRange& range,
                                            CompilerInterface* code_compiler);
  [[nodiscard]] std::unique_ptr<CompilerInterface> create_code_compiler();
  void add_to(Compiled& compiled, const program::TokenRange& range, CompileResult result);
  void save(const CacheKey& key, const ProgramFiles& files);
  void refuse(const std::string& reason);
  void warn_without_code(std::string_view reason);
  [[nodiscard]] DumpSink dump_sink(const program::TokenRange& range);

  ModelCompilerOptions options_;
  CompileCache cache_;
  CompilationReport report_;
  std::vector<std::string> warnings_;
  CompilationStages stages_;
  /// The result of the first compile(); no files if the model could not be compiled.
  std::optional<ProgramFiles> files_;
};

}  // namespace reprise::compile
