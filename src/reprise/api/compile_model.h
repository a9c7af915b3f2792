#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reprise/api/code_generator.h"
#include "reprise/api/engine_args.h"
#include "reprise/compile/cache/cache_entry.h"
#include "reprise/compile/cache/cache_key.h"
#include "reprise/compile/compilation_counter.h"
#include "reprise/compile/pipeline.h"
#include "reprise/config/resolution.h"
#include "reprise/kernels/isa.h"
#include "reprise/program/program.h"
#include "reprise/program/split.h"
#include "reprise/runner/model_runner.h"
#include "reprise/weights/model_config.h"

namespace reprise::api {

/// What compiling did while an engine started.
struct CompilationReport {
  compile::CompilationCounter counter;
  compile::CompilationSeconds seconds;
  std::string backend;          // "llvm", "nvrtc", "eager", or "" at level 0
  std::string cache_directory;  // entry of this engine; empty without a cache
  std::string cache_outcome;    // "hit", or why not
  std::string cache_saved;      // "saved", or why not; empty on a hit
  /// Results of the forward that grow with tokens: what is planned, and what is alive at once.
  int64_t planned_bytes_per_token = 0;
  int64_t live_bytes_per_token = 0;
  std::vector<compile::PipelineReport> pass_reports;  // by unique program; empty on a hit
  /// Kernels that one step launches: as the model was traced (0 on a hit, where it is not), and as
  /// it was compiled (0 where nothing was).
  size_t traced_launches = 0;
  size_t compiled_launches = 0;
  std::string refused;  // why the model was not traced, and runs as at level 0
};

/// Every stage of one compilation, for people to look at.
struct CompilationStages {
  program::Program traced;
  program::SplitProgram before;  // cut, and otherwise as traced
  program::SplitProgram after;   // what the engine would run
  /// By program of `after`, then by its groups: whether code was generated.
  std::vector<std::vector<bool>> has_code;
  std::vector<compile::PipelineReport> reports;  // by program of `after`, or of the whole
  size_t object_bytes = 0;                       // of all generated code
};

/// Everything about an engine that its compiled program depends on.
struct CompileInputs {
  const EngineArgs& args;
  const config::ResolvedConfig& resolved;
  const config::CompilationConfig& compilation;
  const weights::ModelConfig& config;
  kernels::Isa isa;
  DType dtype;
  int32_t max_model_len;
  /// For the device that the engine runs on; nothing: there are no groups, ops run one by one.
  std::optional<CodeGenerator> generator = std::nullopt;
  /// Of the executor: programs of so many tokens are compiled apart from those of more.
  int64_t norm_prologue_max_token_num = 0;
  CompilationStages* stages = nullptr;  // filled if something is compiled; owned by the caller
};

/// What finds a compiled program in the cache: all that decides it (model shape, types, passes,
/// instruction set, this build's sources) and nothing else (weights, paths, batch limits, threads,
/// number of cache blocks).
[[nodiscard]] compile::CacheKey cache_key(const CompileInputs& inputs);

/// The programs of a model as bytes, with which another runner of the same model starts without
/// compiling. No files: it was refused, and runners run the model's own code.
using CompiledFiles = std::vector<compile::CacheFile>;

/// Levels 1 to 3: gives the runner a program of its model, from the cache or compiled now. A model
/// that cannot be traced, a cache that cannot be used, or code that cannot be generated or loaded
/// is a warning, not an error: the engine then runs the model's own code, compiles anew, or runs
/// ops one by one. \pre the level is not NONE, nothing is captured yet
/// \throws device::DeviceError if the device is lost
CompiledFiles compile_model(const CompileInputs& inputs,
                            engine::ModelRunner& runner,
                            CompilationReport& report,
                            std::vector<std::string>& warnings);

/// Gives another runner of the same model what compile_model() returned. \throws
/// device::CodeLoadError
void use_compiled(const CompileInputs& inputs,
                  const CompiledFiles& files,
                  engine::ModelRunner& runner);

}  // namespace reprise::api
