#pragma once

#include <memory>
#include <string>
#include <utility>

#include "reprise/api/loading/loaded_engine.h"
#include "reprise/compile/model/model_compiler.h"
#include "reprise/runner/model_runner.h"

namespace reprise::api {

/// The programs of a model: one compiler for batches without adapters, and one for batches with
/// them. At level 0 there are none. Used while an engine starts.
class ModelPrograms {
 public:
  /// `part`: the model's part in the engine, as ModelCompilerOptions has it.
  explicit ModelPrograms(std::string part = {}) : part_(std::move(part)) {}

  /// Compiles the forwards of the runner's model, and adds the time to the report. A second runner
  /// of the same model gets the same programs.
  void compile(LoadedEngine& engine, runner::ModelRunner& runner);
  /// Forgets all programs, because the memory that they name has changed.
  void reset() noexcept;
  /// Adds the compilers' results to the report of the start.
  void report_to(StartupReport& report) const;

  /// Keep the stages of the compilation for take_stages().
  void keep_stages() noexcept { keeps_stages_ = true; }
  [[nodiscard]] compile::CompilationStages take_stages();

 private:
  [[nodiscard]] std::unique_ptr<compile::ModelCompiler> create(const LoadedEngine& engine,
                                                               std::string part) const;

  std::string part_;
  std::unique_ptr<compile::ModelCompiler> base_;           // nullptr at level 0
  std::unique_ptr<compile::ModelCompiler> with_adapters_;  // nullptr without adapters too
  bool keeps_stages_ = false;
};

}  // namespace reprise::api
