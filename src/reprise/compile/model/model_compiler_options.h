#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "reprise/compile/model/code_generator.h"
#include "reprise/config/resolved_config.h"
#include "reprise/kernels/isa.h"
#include "reprise/tensor/dtype.h"
#include "reprise/weights/model_config.h"

namespace reprise::compile {

/// Everything that a model's compiled program depends on, and where the program is kept.
struct ModelCompilerOptions {
  config::CompilationConfig asked;
  config::ResolvedConfig resolved;
  weights::ModelConfig model;
  kernels::Isa isa = kernels::Isa::scalar;
  DType dtype = DType::bf16;
  std::string packed_weights;  // Parameters::packed_weights(): their types are in the program
  int32_t max_model_len = 0;   // the model's rope table and the width of block tables, in tokens
  int32_t block_size = 16;     // tokens of a KV cache block
  /// For the device that the engine runs on; nullopt: ops run one by one, without row groups.
  std::optional<CodeGenerator> generator;
  /// Of the executor: batches of up to so many tokens get a program of their own, whose matrix
  /// products include the norm before them. 0: the executor has no such kernels.
  int64_t norm_prologue_max_token_num = 0;
  std::filesystem::path cache_root;  // not read where `asked.cache_dir` is set
  bool disable_cache = false;        // compile again at each start and save nothing
  bool keep_stages = false;          // for reports: see ModelCompiler::stages()
};

/// The code generator to use: null when the options ask for none or the device has none.
[[nodiscard]] inline const CodeGenerator* code_generator(const ModelCompilerOptions& options) {
  const bool is_wanted = options.asked.use_inductor && options.asked.backend != "eager";
  return is_wanted && options.generator ? &*options.generator : nullptr;
}

/// Level 3: each piece is compiled and captured on its own, and the result is cached.
[[nodiscard]] inline bool compiles_pieces(const ModelCompilerOptions& options) noexcept {
  return options.resolved.compilation_mode == config::CompilationMode::VLLM_COMPILE;
}

}  // namespace reprise::compile
