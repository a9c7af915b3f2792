#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "reprise/compile/model/code_generator.h"
#include "reprise/config/resolved_config.h"
#include "reprise/kernels/isa.h"
#include "reprise/tensor/dtype.h"
#include "reprise/weights/model_config.h"

namespace reprise::compile {

/// Everything that a model's compiled program depends on, and where the compile cache is.
struct ModelCompilerOptions {
  config::CompilationConfig asked;
  config::ResolvedConfig resolved;
  weights::ModelConfig model;
  kernels::Isa isa = kernels::Isa::scalar;
  DType dtype = DType::bf16;
  // Parameters::packed_weights(); the program contains the types of packed weights.
  std::string packed_weights;
  /// The type of the KV cache and its scales, as a text that differs where they differ.
  std::string kv_cache;
  // The sizes of the memory for adapters that the forward reads; empty: the forward without
  // adapters.
  std::string adapters;
  // In tokens; it decides the size of the rope table and the width of block tables.
  int32_t max_model_len = 0;
  int32_t block_size = 16;  // tokens of a KV cache block
  /// For the engine's device. nullopt: no code is generated, and programs have no row groups.
  std::optional<CodeGenerator> generator;
  /// Ops and passes of the user, which `asked` names. nullptr: there are none.
  std::shared_ptr<const Extensions> extensions;
  /// Batches of up to this many tokens get their own program. In it, each matrix product includes
  /// the norm before it. 0: the executor has no kernels for that.
  int64_t norm_prologue_max_token_num = 0;
  std::filesystem::path cache_root;  // ignored if `asked.cache_dir` is set
  bool disable_cache = false;        // true: compile at each start and save nothing
  bool keep_stages = false;          // for reports: see ModelCompiler::stages()
};

/// Whether a program runs op by op, without generated code. With ATOM's rule, level 1 does unless a
/// backend is named: ATOM's level 1 only checks that a model can be traced.
[[nodiscard]] inline bool runs_eagerly(const ModelCompilerOptions& options) noexcept {
  const bool is_atoms_check =
      options.asked.capture_size_rule == cudagraph::CaptureSizeRule::atom &&
      options.resolved.compilation_mode == config::CompilationMode::STOCK_TORCH_COMPILE &&
      options.asked.backend.empty();
  return !options.asked.use_inductor || options.asked.backend == "eager" || is_atoms_check;
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
