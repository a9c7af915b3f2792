#include "reprise/compile/model/model_cache_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/compile/model/build_identity.h"
#include "reprise/compile/model/pass_choice.h"
#include "reprise/kernels/row_group/row_group_arguments.h"
#include "reprise/program/artifact.h"

namespace reprise::compile {

const char* sources_hash() noexcept { return kSourcesHash; }

CacheKey model_cache_key(const ModelCompilerOptions& options) {
  const weights::ModelConfig& model = options.model;
  std::vector<int64_t> windows;
  for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    windows.push_back(model.window_of_layer(layer).value_or(0));
  }
  const CodeGenerator* generator = code_generator(options);
  CacheKey key;
  key.add("artifact_version", fmt::to_string(program::kArtifactVersion))
      .add("sources", kSourcesHash)
      .add("architecture", weights::architecture_name(model.architecture))
      .add("hidden_size", fmt::to_string(model.hidden_size))
      .add("intermediate_size", fmt::to_string(model.intermediate_size))
      .add("num_hidden_layers", fmt::to_string(model.num_hidden_layers))
      .add("num_attention_heads", fmt::to_string(model.num_attention_heads))
      .add("num_key_value_heads", fmt::to_string(model.num_key_value_heads))
      .add("head_dim", fmt::to_string(model.head_dim))
      .add("vocab_size", fmt::to_string(model.vocab_size))
      .add("rms_norm_eps", fmt::format("{:a}", static_cast<float>(model.rms_norm_eps)))
      .add("tie_word_embeddings", fmt::to_string(model.tie_word_embeddings))
      .add("biases",
           fmt::format("{}", fmt::join({model.qkv_bias, model.o_bias, model.mlp_bias}, ",")))
      .add("qk_norm", fmt::to_string(model.qk_norm))
      .add("windows", fmt::format("{}", fmt::join(windows, ",")))
      .add("dtype", dtype_name(options.dtype))
      .add("packed_weights", options.packed_weights)
      .add("max_model_len", fmt::to_string(options.max_model_len))
      .add("block_size", fmt::to_string(options.block_size))
      .add("level", config::to_string(options.resolved.compilation_mode))
      .add("splitting_ops", fmt::format("{}", fmt::join(options.resolved.splitting_ops, ",")))
      .add("partition_after_passes", fmt::to_string(partitions_after_passes(options)))
      .add("passes", passes_text(options))
      .add("codegen", generator != nullptr ? generator->identity : "none")
      .add("codegen_abi", fmt::format("{}.{}", kCodegenAbi, kernels::kRowGroupAbi))
      .add("isa", kernels::isa_name(options.isa));
  return key;
}

}  // namespace reprise::compile
