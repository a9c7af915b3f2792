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

/// A model's forward as a program, and the weights and caches that the program's slots stand for.
struct TracedModel {
  program::TracedProgram traced;
  std::vector<program::ParameterSlot> slots;
};

/// The model to compile, as its runner sees it.
struct ModelSource {
  bool may_be_compiled = true;         // false: the model asks to run its own code
  std::function<TracedModel()> trace;  // \throws program::TraceError
};

/// Every stage of one compilation, for reports. Filled for the last token range only.
struct CompilationStages {
  program::Program traced;
  program::SplitProgram before;  // the traced program, split into pieces
  program::SplitProgram after;   // the program that the engine would run
  /// For each program of `after` and each of its row groups: whether code was generated for it.
  std::vector<std::vector<bool>> has_code;
  std::vector<PipelineReport> reports;  // one per program of `after`, or one for the whole program
  size_t object_bytes = 0;              // of all generated code
};

/// Levels 1 to 3: turns a model's forward into programs, from the cache or by compiling it. Owns
/// the report, the warnings and the cache of this compilation.
///
/// A model that cannot be traced, a cache that cannot be used, and code that cannot be generated or
/// loaded are warnings, not errors: the engine then runs the model's own code, compiles again, or
/// runs the ops of a row group one by one. One thread.
class ModelCompiler {
 public:
  /// \pre the level in `options` is not NONE
  explicit ModelCompiler(ModelCompilerOptions options);

  /// The programs for a runner of the model, or nullopt when the runner keeps the model's own code.
  /// The first call reads the cache or compiles; each later call loads the same programs once more,
  /// for another runner of the same model. \throws device::CodeLoadError on a later call, and
  /// whatever `source.trace` throws other than program::TraceError
  [[nodiscard]] std::optional<program::RangedPrograms> compile(const ModelSource& source);

  [[nodiscard]] const CompilationReport& report() const noexcept { return report_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  /// Empty unless something was compiled and ModelCompilerOptions::keep_stages is set.
  [[nodiscard]] CompilationStages& stages() noexcept { return stages_; }

 private:
  /// Programs to run, and the same programs as files of a cache entry.
  struct Compiled {
    program::RangedPrograms programs;
    ProgramFiles files;
    bool matches_cache_key = true;  // false: compiled without the code generator the key names
  };

  [[nodiscard]] std::optional<Compiled> find_cached(const CacheKey& key);
  [[nodiscard]] std::optional<Compiled> compile_now(const ModelSource& source);
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
  /// What the first compile() made; empty files when the model was refused.
  std::optional<ProgramFiles> files_;
};

}  // namespace reprise::compile
