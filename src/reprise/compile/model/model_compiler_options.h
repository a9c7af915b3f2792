#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "reprise/compile/model/code_generator.h"
#include "reprise/config/resolved_config.h"
#include "reprise/kernels/isa.h"

namespace reprise::compile {

/// How a traced model becomes a program that runs, and where the compile cache is.
struct ModelCompilerOptions {
  config::CompilationConfig asked;
  config::ResolvedConfig resolved;
  kernels::Isa isa = kernels::Isa::scalar;
  /// For the engine's device. nullopt: no code is generated, and programs have no row groups.
  std::optional<CodeGenerator> generator;
  /// Ops and passes of the user, some of which `asked` names. nullptr: there are none.
  std::shared_ptr<const Extensions> extensions;
  /// Batches of up to this many tokens get their own program. In it, each matrix product includes
  /// the norm before it. 0: the executor has no kernels for that.
  int64_t norm_prologue_max_token_num = 0;
  // The number of this rank among the ranks that start together; each has folders of its own.
  int rank = 0;
  int64_t tensor_parallel_size = 1;  // the ranks that share each layer
  int64_t tensor_rank = 0;           // which of them this is
  /// Selects some of the programs that one rank compiles: empty, "adapters" or "draft".
  std::string part;
  std::filesystem::path cache_root;  // ignored if `asked.cache_dir` is set
  bool disable_cache = false;        // true: compile at each start and save nothing
  bool keep_stages = false;          // for reports: see ModelCompiler::stages()
};

[[nodiscard]] inline bool is_level_1(const ModelCompilerOptions& options) noexcept {
  return options.resolved.compilation_mode == config::CompilationMode::STOCK_TORCH_COMPILE;
}

/// Whether a program runs op by op, without generated code. This is so at level 1, unless a backend
/// is named: level 1 checks that a model can be traced, like DYNAMO_AS_IS with backend "eager" in
/// ATOM.
[[nodiscard]] inline bool runs_eagerly(const ModelCompilerOptions& options) noexcept {
  const std::string& backend = options.asked.backend;
  return !options.asked.use_inductor || backend == "eager" ||
         (is_level_1(options) && backend.empty());
}

/// The code generator to use. nullptr if the options switch it off or the device has none.
[[nodiscard]] inline const CodeGenerator* code_generator(const ModelCompilerOptions& options) {
  return !runs_eagerly(options) && options.generator ? &*options.generator : nullptr;
}

/// Level 3: each piece is compiled and captured separately, and the result is cached.
[[nodiscard]] inline bool compiles_pieces(const ModelCompilerOptions& options) noexcept {
  return options.resolved.compilation_mode == config::CompilationMode::VLLM_COMPILE;
}

}  // namespace reprise::compile
