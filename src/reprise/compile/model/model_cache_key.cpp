#include "reprise/compile/model/model_cache_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "reprise/compile/codegen/compiler_interface.h"
#include "reprise/compile/model/build_identity.h"
#include "reprise/compile/model/pass_choice.h"
#include "reprise/compile/model/user_passes.h"
#include "reprise/kernels/row_group/row_group_arguments.h"
#include "reprise/program/artifact.h"

namespace reprise::compile {

namespace {

int number_of(auto enumerator) { return static_cast<int>(enumerator); }

std::string bits_text(const std::vector<bool>& bits) {
  std::string text;
  for (const bool bit : bits) text.push_back(bit ? '1' : '0');
  return text;
}

// The kinds of blocks that the layers are made of.
// The projections behind a pooling.
std::string dense_text(const weights::ModelConfig& model) {
  std::string text;
  if (!model.pooling) return text;
  for (const weights::DenseModule& dense : model.pooling->dense) {
    text +=
        fmt::format("{},{},{};", dense.out_features, dense.has_bias, number_of(dense.activation));
  }
  return text;
}

std::string blocks_text(const weights::ModelConfig& model) {
  std::vector<bool> rotations;
  for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    rotations.push_back(model.rotates(layer));
  }
  return fmt::format(
             "{}",
             fmt::join({number_of(model.norm),
                        number_of(model.norm_bias),
                        number_of(model.qk_norm),
                        number_of(model.has_unit_qk_norm),
                        number_of(model.attention_temperature.has_value()),
                        number_of(model.query_temperature.has_value()),
                        number_of(model.activation),
                        number_of(model.has_gated_mlp),
                        number_of(model.has_parallel_residual),
                        number_of(model.has_parallel_norms),
                        number_of(model.has_learned_positions),
                        number_of(model.has_attention_sinks),
                        number_of(model.has_attention_gate),
                        number_of(model.has_mlp),
                        number_of(model.is_encoder),
                        number_of(model.num_token_types),
                        model.pooling ? number_of(model.pooling->type) : -1,
                        model.classifier ? static_cast<int>(model.classifier->num_rows()) : -1,
                        number_of(model.sliding_rope.has_value())},
                       ",")) +
         ";" + bits_text(rotations) + ";" + dense_text(model);
}

// The constants of ops.
std::string scales_text(const weights::ModelConfig& model) {
  std::string text;
  for (const double value : {model.attention_scale.value_or(0),
                             model.divides_scores_by_layer ? 1.0 : 0.0,
                             model.attention_soft_cap,
                             model.embedding_scale,
                             model.residual_scale,
                             model.logits_scale,
                             model.logits_soft_cap,
                             model.multipliers.attention_in,
                             model.multipliers.attention_out,
                             model.multipliers.mixer_in,
                             model.multipliers.mixer_out,
                             model.multipliers.mlp_gate,
                             model.multipliers.mlp_out,
                             model.multipliers.gate,
                             model.multipliers.time_steps}) {
    text += fmt::format("{:a},", static_cast<float>(value));
  }
  return text;
}

std::string experts_text(const weights::ModelConfig& model) {
  if (!model.moe) return "none";
  const weights::MixtureOfExperts& moe = *model.moe;
  const weights::ExpertRange mine = moe.local_experts();
  return fmt::format("{},{}+{},{},{},{},{},{},{},{},{},{},{:a},{},{:a};{}",
                     moe.num_experts,
                     mine.begin,
                     mine.count,
                     moe.engines,
                     moe.top_k,
                     moe.intermediate_size,
                     moe.shared_intermediate_size,
                     moe.has_shared_gate,
                     moe.renormalises,
                     number_of(moe.scores),
                     moe.groups,
                     moe.top_groups,
                     static_cast<float>(moe.routed_scale),
                     moe.is_stacked,
                     static_cast<float>(moe.swiglu_limit),
                     bits_text(model.moe_layers));
}

std::string latent_attention_text(const weights::ModelConfig& model) {
  if (!model.mla) return "none";
  const weights::LatentAttentionConfig& mla = *model.mla;
  return fmt::format("{}",
                     fmt::join({mla.q_lora_rank,
                                mla.kv_lora_rank,
                                mla.qk_nope_head_dim,
                                mla.qk_rope_head_dim,
                                mla.v_head_dim},
                               ","));
}

std::string recurrent_layers_text(const weights::ModelConfig& model) {
  if (!model.recurrent) return "none";
  const weights::RecurrentConfig& layers = *model.recurrent;
  std::vector<bool> are_recurrent;
  for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    are_recurrent.push_back(model.is_recurrent_layer(layer));
  }
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{};{}",
                     number_of(layers.recurrence),
                     layers.conv_kernel,
                     layers.num_heads,
                     layers.head_dim,
                     layers.state_size,
                     layers.num_groups,
                     layers.time_step_rank,
                     layers.conv_bias,
                     layers.proj_bias,
                     layers.has_norm,
                     layers.norms_before_gate,
                     layers.has_tiled_heads,
                     model.has_parallel_recurrence,
                     bits_text(are_recurrent));
}

}  // namespace

const char* sources_hash() noexcept { return kSourcesHash; }

CacheKey model_cache_key(const ModelCompilerOptions& options) {
  const weights::ModelConfig& model = options.model;
  std::vector<int64_t> windows;
  std::vector<int64_t> chunks;
  for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    windows.push_back(model.window_of_layer(layer).value_or(0));
    chunks.push_back(model.chunk_of_layer(layer).value_or(0));
  }
  const CodeGenerator* generator = code_generator(options);
  CacheKey key;
  key.add("artifact_version", fmt::to_string(program::kArtifactVersion))
      .add("sources", kSourcesHash)
      .add("architecture", weights::architecture_name(model.architecture))
      .add("hidden_size", fmt::to_string(model.hidden_size))
      .add("intermediate_size", fmt::to_string(model.intermediate_size))
      .add("num_hidden_layers", fmt::to_string(model.num_hidden_layers))
      .add("tensor_parallel_size", fmt::to_string(model.tensor_parallel_size))
      .add("tensor_rank", fmt::to_string(model.tensor_rank))
      .add("pipeline", fmt::format("{} of {}", model.pipeline_rank, model.pipeline_parallel_size))
      .add("num_attention_heads", fmt::to_string(model.num_attention_heads))
      .add("num_key_value_heads", fmt::to_string(model.num_key_value_heads))
      .add("head_dim", fmt::to_string(model.head_dim))
      .add("vocab_size", fmt::to_string(model.vocab_size))
      .add("norm_eps", fmt::format("{:a}", static_cast<float>(model.norm_eps)))
      .add("tie_word_embeddings", fmt::to_string(model.tie_word_embeddings))
      .add("biases",
           fmt::format("{}", fmt::join({model.qkv_bias, model.o_bias, model.mlp_bias}, ",")))
      .add("blocks", blocks_text(model))
      .add("scales", scales_text(model))
      .add("experts", experts_text(model))
      .add("latent_attention", latent_attention_text(model))
      .add("recurrent_layers", recurrent_layers_text(model))
      .add("windows", fmt::format("{}", fmt::join(windows, ",")))
      .add("attention_chunks", fmt::format("{}", fmt::join(chunks, ",")))
      .add("dtype", dtype_name(options.dtype))
      .add("packed_weights", options.packed_weights)
      .add("kv_cache", options.kv_cache)
      .add("adapters", options.adapters)
      .add("max_model_len", fmt::to_string(options.max_model_len))
      .add("block_size", fmt::to_string(options.block_size))
      .add("level", config::to_string(options.resolved.compilation_mode))
      .add("splitting_ops", fmt::format("{}", fmt::join(options.resolved.splitting_ops, ",")))
      .add("partition_after_passes", fmt::to_string(partitions_after_passes(options)))
      .add("passes", passes_text(options))
      .add("extensions", extensions_text(options))
      .add("codegen", generator != nullptr ? generator->identity : "none")
      .add("codegen_abi", fmt::format("{}.{}", kCodegenAbi, kernels::kRowGroupAbi))
      .add("isa", kernels::isa_name(options.isa));
  return key;
}

}  // namespace reprise::compile
