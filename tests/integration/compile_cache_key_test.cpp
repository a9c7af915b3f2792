#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reprise/compile/model/model_cache_key.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/kernels/cpu_executor.h"
#include "reprise/kv_cache/tensors/cache_dtype.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/kv_cache/tensors/state_cache_tensors.h"
#include "reprise/lora/adapter_slots.h"
#include "reprise/models/causal_lm.h"
#include "reprise/runner/model_attention.h"
#include "reprise/runner/trace_forward.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/files/model_directory.h"
#include "reprise/weights/sources/dummy_weights.h"
#include "tests/support/source_dir.h"

// The inputs of the compile cache's key: every member of a model's configuration that changes the
// traced program, and every option that changes how the program is compiled.
namespace reprise {

/// Converts to any type, so that the members of an aggregate can be counted. Has no definition,
/// because nothing is converted.
struct Anything {
  template <typename T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

namespace {

using weights::ModelConfig;

ModelConfig config_of(const std::string& golden) {
  const std::filesystem::path goldens = std::filesystem::path(source_dir()) / "tests/goldens";
  ModelConfig config = weights::load_model_config(weights::ModelDirectory(goldens / golden)).config;
  config.quantization = {};
  return config;
}

struct Engine {
  ModelConfig model = config_of("tiny-llama");
  compile::ModelCompilerOptions options = level_3();
  DType dtype = DType::f32;
  std::string kv_cache_dtype = "auto";
  int32_t max_model_len = 64;
  int32_t block_size = 16;
  int32_t num_blocks = 4;
  int32_t num_states = 2;
  int32_t num_adapters = 0;
  models::AuxiliaryStates auxiliary;

  static compile::ModelCompilerOptions level_3() {
    compile::ModelCompilerOptions options;
    options.isa = kernels::Isa::avx2;
    options.resolved.compilation_mode = config::CompilationMode::VLLM_COMPILE;
    options.resolved.splitting_ops = {"attention"};
    return options;
  }
};

// The key of the engine's program, by the steps of a start: the model is made and traced.
std::string key_of(const Engine& engine) {
  const auto device = device::create_cpu_device({.num_threads = 1, .pin_threads = false});
  const auto stream = device->create_stream();
  const auto pool = device->create_pool();
  kernels::CpuExecutor executor(*stream, *pool, kernels::kernel_table(kernels::Isa::scalar));
  const weights::DummyWeights weights(engine.model, /*seed=*/7);
  models::Parameters parameters(weights, engine.dtype, *device, *stream, executor);
  std::unique_ptr<lora::AdapterSlots> adapters;
  if (engine.num_adapters > 0) {
    adapters = std::make_unique<lora::AdapterSlots>(engine.num_adapters, /*max_lora_rank=*/8);
    adapters->set_token_slots(parameters.add_buffer("lora_token_slots", {DType::i32, {64}}));
  }
  const auto model =
      models::create_model(engine.model, engine.max_model_len, parameters, adapters.get());
  model->set_auxiliary(engine.auxiliary);
  kv_cache::KvCacheTensors cache(
      runner::kv_cache_layout_of(engine.model,
                                 engine.num_blocks,
                                 engine.block_size,
                                 engine.dtype,
                                 kv_cache::find_cache_dtype(engine.kv_cache_dtype)),
      *device,
      executor);
  kv_cache::StateCacheTensors states(
      runner::state_cache_layout_of(engine.model, engine.num_states), *device, executor);
  const attention::LayerCaches caches{.kv_cache = &cache, .states = &states};
  for (attention::AttentionLayer* layer : model->attention_layers()) layer->bind_caches(caches);
  const program::TracedProgram traced = program::trace(
      runner::forward_signature(parameters,
                                caches,
                                engine.max_model_len / engine.block_size,
                                model->hidden_input_size(),
                                model->has_encoder()),
      runner::forward_function(*model, adapters ? adapters->token_slots() : Tensor{}));
  const auto slots = runner::parameter_slots(traced, parameters);
  stream->synchronize();
  return compile::model_cache_key(engine.options, traced.program, slots).text();
}

// ---- the configuration of a model

enum class Effect { changes_the_key, leaves_the_key };

// The effect of `change` on the key of `golden`. The row's name is the member that it changes.
struct Row {
  std::string member;
  Effect effect;
  std::string golden;
  void (*change)(ModelConfig& model);
  bool (*is_same)(const ModelConfig& a, const ModelConfig& b);
};

template <typename Aggregate, typename... Members>
consteval size_t count_members() {
  if constexpr (requires { Aggregate{Members{}..., Anything{}}; }) {
    return count_members<Aggregate, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}

// The parts of a configuration that rows change.
auto& whole(auto& model) { return model; }
auto& latents(auto& model) { return *model.mla; }
auto& position_index(auto& model) { return *model.mla->index; }
auto& recurrence(auto& model) { return *model.recurrent; }
auto& multipliers(auto& model) { return model.multipliers; }
auto& rotation(auto& model) { return model.rope; }
auto& temperature(auto& model) { return *model.attention_temperature; }
auto& text_encoder(auto& model) { return *model.encoder; }
auto& experts(auto& model) { return *model.moe; }
auto& vectors(auto& model) { return *model.pooling; }
auto& projection(auto& model) { return model.pooling->dense.at(0); }
auto& labels(auto& model) { return *model.classifier; }

#define ROW(part, member, effect, golden, ...)           \
  Row {                                                  \
    #part "." #member, Effect::effect, golden,           \
        [](ModelConfig& model) {                         \
          [[maybe_unused]] auto& it = part(model);       \
          __VA_ARGS__;                                   \
        },                                               \
        [](const ModelConfig& a, const ModelConfig& b) { \
          return part(a).member == part(b).member;       \
        }                                                \
  }
#define CHANGES(part, member, golden, ...) ROW(part, member, changes_the_key, golden, __VA_ARGS__)
#define LEAVES(part, member, golden, ...) ROW(part, member, leaves_the_key, golden, __VA_ARGS__)

// NOLINTNEXTLINE(readability-function-size): a table
std::vector<Row> all_rows() {
  using weights::Activation;
  using weights::LayerType;
  return {
      CHANGES(whole, architecture, "tiny-llama", it.architecture = weights::Architecture::olmo2),
      CHANGES(whole, hidden_size, "tiny-llama", it.hidden_size *= 2),
      CHANGES(whole, intermediate_size, "tiny-llama", it.intermediate_size *= 2),
      CHANGES(whole, num_hidden_layers, "tiny-llama", it.num_hidden_layers = 1),
      CHANGES(whole, num_attention_heads, "tiny-llama", it.num_attention_heads *= 2),
      CHANGES(whole, num_key_value_heads, "tiny-llama", it.num_key_value_heads = 1),
      CHANGES(whole, head_dim, "tiny-llama", it.head_dim *= 2),
      CHANGES(whole, full_heads, "architectures/gemma4", it.full_heads.reset()),
      CHANGES(whole, num_kv_shared_layers, "architectures/gemma4", it.num_kv_shared_layers = 1),
      CHANGES(whole, doubles_shared_mlps, "architectures/gemma4", it.doubles_shared_mlps = false),
      CHANGES(whole,
              full_values_are_keys,
              "architectures/gemma4-experts",
              it.full_values_are_keys = false),
      CHANGES(whole, has_value_norm, "architectures/gemma4", it.has_value_norm = false),
      CHANGES(whole,
              num_full_attention_heads,
              "architectures/step3p7",
              it.num_full_attention_heads = 2),
      CHANGES(whole, has_head_gates, "architectures/step3p7", it.has_head_gates = false),
      CHANGES(whole, mlp_limits, "architectures/step3p7", it.mlp_limits[0] = 0.5),
      CHANGES(experts, limits, "architectures/step3p7", it.limits[1] = 0.5),
      CHANGES(whole, value_head_dim, "architectures/mimo-v2", it.value_head_dim = 0),
      CHANGES(whole, value_scale, "architectures/mimo-v2", it.value_scale = 0.5),
      CHANGES(
          whole, has_sinks_in_windows, "architectures/mimo-v2", it.has_sinks_in_windows = false),
      // Made-up weights are all 1.
      LEAVES(whole, has_layer_scalars, "architectures/gemma4", it.has_layer_scalars = false),
      CHANGES(whole,
              hidden_size_per_layer_input,
              "architectures/gemma4",
              it.hidden_size_per_layer_input *= 2),
      CHANGES(whole, has_single_blocks, "architectures/nemotron-h", it.has_single_blocks = false),
      CHANGES(whole, mla, "architectures/deepseek-v3", it.mla->v_head_dim *= 2),
      CHANGES(whole, recurrent, "architectures/mamba2", it.recurrent->conv_kernel = 3),
      CHANGES(
          whole, has_parallel_recurrence, "architectures/bamba", it.has_parallel_recurrence = true),
      CHANGES(whole, multipliers, "architectures/falcon-h1", it.multipliers.gate = 3),
      LEAVES(
          whole, qkv_layout, "architectures/gpt-neox", it.qkv_layout = weights::QkvLayout::stacked),
      LEAVES(
          whole, has_transposed_matrices, "architectures/gpt2", it.has_transposed_matrices = false),
      CHANGES(whole, vocab_size, "tiny-llama", it.vocab_size += 8),
      CHANGES(whole, embedding_size, "architectures/opt-350m", it.embedding_size = 16),
      LEAVES(whole, max_position_embeddings, "tiny-llama", it.max_position_embeddings *= 2),
      CHANGES(
          whole, max_position_embeddings, "architectures/gpt2", it.max_position_embeddings *= 2),
      CHANGES(whole, norm, "tiny-llama", it.norm = weights::NormType::layer_norm),
      CHANGES(whole, norm_bias, "architectures/gpt-neox", it.norm_bias = false),
      CHANGES(whole, norm_eps, "tiny-llama", it.norm_eps *= 2),
      CHANGES(whole, activation, "tiny-llama", it.activation = Activation::gelu),
      LEAVES(whole, has_mlp, "architectures/mamba2", it.has_mlp = true),
      CHANGES(whole, has_gated_mlp, "architectures/gemma", it.has_gated_mlp = false),
      CHANGES(
          whole, has_parallel_residual, "architectures/gpt-neox", it.has_parallel_residual = false),
      CHANGES(whole, has_parallel_norms, "architectures/gpt-neox", it.has_parallel_norms = false),
      CHANGES(whole, has_post_norms, "architectures/opt-350m", it.has_post_norms = false),
      LEAVES(whole, rope, "tiny-llama", it.rope.theta *= 2),
      CHANGES(whole, sliding_rope, "architectures/gemma3", it.sliding_rope.reset()),
      CHANGES(whole, rope_layers, "tiny-llama", it.rope_layers = {true, false}),
      LEAVES(whole, learned_position_offset, "architectures/opt", it.learned_position_offset = 1),
      CHANGES(whole, has_alibi, "architectures/falcon-rw-alibi", it.has_alibi = false),
      CHANGES(whole, has_learned_positions, "architectures/gpt2", it.has_learned_positions = false),
      CHANGES(whole, tie_word_embeddings, "tiny-llama", it.tie_word_embeddings = true),
      CHANGES(whole, qkv_bias, "tiny-llama", it.qkv_bias = true),
      CHANGES(whole, o_bias, "tiny-llama", it.o_bias = true),
      CHANGES(whole, mlp_bias, "tiny-llama", it.mlp_bias = true),
      CHANGES(whole, qk_norm, "tiny-qwen3", it.qk_norm = weights::QkNorm::all_heads),
      CHANGES(whole, norms_rotated_heads, "tiny-qwen3", it.norms_rotated_heads = true),
      CHANGES(whole,
              has_unit_qk_norm,
              "architectures/llama4",
              it.has_unit_qk_norm = !it.has_unit_qk_norm),
      CHANGES(whole, has_attention_sinks, "architectures/gpt-oss", it.has_attention_sinks = false),
      CHANGES(whole, has_attention_gate, "architectures/qwen3-next", it.has_attention_gate = false),
      CHANGES(whole, qkv_clip, "architectures/olmoe-clip", it.qkv_clip = 0.5),
      CHANGES(whole, attention_scale, "tiny-llama", it.attention_scale = 0.5),
      CHANGES(whole, divides_scores_by_layer, "tiny-llama", it.divides_scores_by_layer = true),
      CHANGES(whole, attention_soft_cap, "tiny-llama", it.attention_soft_cap = 50),
      CHANGES(
          whole, attention_temperature, "architectures/llama4", it.attention_temperature.reset()),
      CHANGES(whole, query_temperature, "architectures/ministral3", it.query_temperature.reset()),
      CHANGES(whole, embedding_scale, "tiny-llama", it.embedding_scale = 2),
      CHANGES(whole, residual_scale, "architectures/granite", it.residual_scale *= 2),
      CHANGES(whole, logits_scale, "tiny-llama", it.logits_scale = 2),
      CHANGES(whole, logits_soft_cap, "tiny-llama", it.logits_soft_cap = 30),
      CHANGES(whole, is_encoder, "pooling/bert-cls", it.is_encoder = false),
      LEAVES(whole, is_headless, "pooling/qwen3-last", it.is_headless = !it.is_headless),
      CHANGES(whole, num_token_types, "pooling/bert-cls", it.num_token_types = 0),
      LEAVES(whole, encoder, "encoder_decoder/bart", it.encoder->decoder_prompt = {5}),
      CHANGES(whole, pooling, "tiny-llama", it.pooling.emplace()),
      LEAVES(whole, matryoshka, "pooling/bert-cls", it.matryoshka.emplace()),
      CHANGES(whole, classifier, "classifiers/bert-labels", it.classifier->num_labels = 5),
      CHANGES(whole, tensor_parallel_size, "tiny-llama", it.tensor_parallel_size = 2),
      CHANGES(whole, tensor_rank, "two stages", it.tensor_rank = 1),
      CHANGES(whole, pipeline_parallel_size, "tiny-llama", it.pipeline_parallel_size = 2),
      CHANGES(whole, pipeline_rank, "two stages", it.pipeline_rank = 1),
      CHANGES(whole, moe, "architectures/mixtral", it.moe->top_k = 1),
      CHANGES(whole, moe_layers, "architectures/mixtral", it.moe_layers[1] = false),
      CHANGES(whole, sliding_window, "architectures/gemma3", it.sliding_window = 5),
      CHANGES(whole, attention_chunk_size, "architectures/llama4", it.attention_chunk_size = 5),
      CHANGES(whole,
              layer_types,
              "architectures/gemma3",
              it.layer_types[0] = LayerType::full_attention),
      LEAVES(whole, quantization, "tiny-llama", it.quantization.bits = 4),
      LEAVES(whole, dtype, "tiny-llama", it.dtype = DType::f16),
      LEAVES(whole, bos_token_id, "tiny-llama", it.bos_token_id = 77),
      LEAVES(whole, eos_token_ids, "tiny-llama", it.eos_token_ids = {77}),

      CHANGES(latents, index, "architectures/glm-moe-dsa", it.index->top_k = 5),
      CHANGES(position_index, num_heads, "architectures/glm-moe-dsa", it.num_heads = 5),
      CHANGES(position_index, head_dim, "architectures/glm-moe-dsa", it.head_dim += 4),
      CHANGES(position_index, top_k, "architectures/glm-moe-dsa", it.top_k = 5),
      LEAVES(
          position_index, is_interleaved, "architectures/glm-moe-dsa", it.is_interleaved = false),
      CHANGES(latents, q_lora_rank, "architectures/deepseek-v3", it.q_lora_rank += 8),
      CHANGES(latents, kv_lora_rank, "architectures/deepseek-v3", it.kv_lora_rank *= 2),
      CHANGES(latents, qk_nope_head_dim, "architectures/deepseek-v3", it.qk_nope_head_dim *= 2),
      CHANGES(latents,
              qk_rope_head_dim,
              "architectures/deepseek-v3",
              it.qk_rope_head_dim *= 2,
              model.head_dim *= 2),
      CHANGES(latents, v_head_dim, "architectures/deepseek-v3", it.v_head_dim *= 2),

      CHANGES(
          recurrence, recurrence, "architectures/mamba2", model = config_of("architectures/mamba")),
      CHANGES(recurrence, has_key_steps, "architectures/kimi-linear", it.has_key_steps = false),
      CHANGES(recurrence, conv_kernel, "architectures/mamba2", it.conv_kernel = 3),
      CHANGES(recurrence, num_heads, "architectures/mamba2", it.num_heads *= 2),
      CHANGES(recurrence, head_dim, "architectures/mamba2", it.head_dim *= 2),
      CHANGES(recurrence, state_size, "architectures/mamba2", it.state_size *= 2),
      CHANGES(recurrence, num_groups, "architectures/mamba2", it.num_groups = 1),
      CHANGES(recurrence, time_step_rank, "architectures/mamba", it.time_step_rank *= 2),
      CHANGES(recurrence, conv_bias, "architectures/mamba2", it.conv_bias = !it.conv_bias),
      CHANGES(recurrence, proj_bias, "architectures/mamba2", it.proj_bias = !it.proj_bias),
      CHANGES(recurrence, has_norm, "architectures/mamba2", it.has_norm = false),
      CHANGES(recurrence, norms_before_gate, "architectures/mamba2", it.norms_before_gate = true),
      CHANGES(recurrence, has_tiled_heads, "architectures/qwen3-next", it.has_tiled_heads = true),

      CHANGES(multipliers, attention_in, "architectures/falcon-h1", it.attention_in = 3),
      CHANGES(multipliers, attention_out, "architectures/falcon-h1", it.attention_out = 3),
      CHANGES(multipliers, mixer_in, "architectures/falcon-h1", it.mixer_in = 3),
      CHANGES(multipliers, mixer_out, "architectures/falcon-h1", it.mixer_out = 3),
      CHANGES(multipliers, mlp_gate, "architectures/falcon-h1", it.mlp_gate = 3),
      CHANGES(multipliers, mlp_out, "architectures/falcon-h1", it.mlp_out = 3),
      CHANGES(multipliers, gate, "architectures/falcon-h1", it.gate = 3),
      LEAVES(multipliers, values, "architectures/falcon-h1", it.values = 3),
      LEAVES(multipliers, b, "architectures/falcon-h1", it.b = 3),
      LEAVES(multipliers, c, "architectures/falcon-h1", it.c = 3),
      CHANGES(multipliers, time_steps, "architectures/falcon-h1", it.time_steps = 3),

      CHANGES(rotation, type, "tiny-llama", it.type = weights::RopeType::none),
      LEAVES(rotation, theta, "tiny-llama", it.theta *= 2),
      LEAVES(rotation, rotary_dim, "tiny-llama", it.rotary_dim = 4),
      LEAVES(rotation, frequency_dim, "tiny-llama", it.frequency_dim = 3),
      LEAVES(rotation, is_interleaved, "tiny-llama", it.is_interleaved = true),
      LEAVES(rotation, factor, "tiny-llama", it.factor = 2),
      LEAVES(rotation, low_freq_factor, "tiny-llama", it.low_freq_factor = 2),
      LEAVES(rotation, high_freq_factor, "tiny-llama", it.high_freq_factor = 2),
      LEAVES(rotation,
             original_max_position_embeddings,
             "tiny-llama",
             it.original_max_position_embeddings = 7),
      LEAVES(rotation, attention_factor, "architectures/llama-yarn", it.attention_factor = 2),
      LEAVES(rotation, score_factor, "architectures/llama-yarn", it.score_factor = 2),
      LEAVES(rotation, beta_fast, "architectures/llama-yarn", it.beta_fast = 16),
      LEAVES(rotation, beta_slow, "architectures/llama-yarn", it.beta_slow = 2),
      LEAVES(rotation, truncates, "architectures/llama-yarn", it.truncates = false),
      LEAVES(
          rotation, frequency_factors, "architectures/phi3-longrope", it.frequency_factors[0] = 3),
      LEAVES(rotation, long_factors, "architectures/phi3-longrope", it.long_factors[0] = 3),

      LEAVES(temperature, scale, "architectures/llama4", it.scale *= 2),
      LEAVES(temperature, floor_positions, "architectures/llama4", it.floor_positions *= 2),

      LEAVES(text_encoder, num_layers, "encoder_decoder/bart", it.num_layers = 1),
      LEAVES(text_encoder, intermediate_size, "encoder_decoder/bart", it.intermediate_size *= 2),
      LEAVES(text_encoder, decoder_prompt, "encoder_decoder/bart", it.decoder_prompt = {5}),

      CHANGES(experts, num_experts, "architectures/mixtral", it.num_experts *= 2),
      CHANGES(experts, top_k, "architectures/mixtral", it.top_k = 1),
      CHANGES(experts, intermediate_size, "architectures/mixtral", it.intermediate_size *= 2),
      CHANGES(experts,
              shared_intermediate_size,
              "architectures/qwen2-moe",
              it.shared_intermediate_size *= 2),
      CHANGES(experts, has_shared_gate, "architectures/qwen2-moe", it.has_shared_gate = false),
      CHANGES(experts, renormalises, "architectures/mixtral", it.renormalises = false),
      CHANGES(
          experts, scores, "architectures/deepseek-v3", it.scores = weights::RouterScores::softmax),
      CHANGES(experts, groups, "architectures/deepseek-v3", it.groups = 2),
      CHANGES(experts, top_groups, "architectures/deepseek-v3", it.top_groups = 1),
      CHANGES(experts, routed_scale, "architectures/deepseek-v3", it.routed_scale *= 2),
      CHANGES(experts, is_stacked, "architectures/mixtral", it.is_stacked = true),
      CHANGES(experts,
              is_gated,
              "architectures/nemotron-h-experts",
              it.is_gated = true,
              model.activation = Activation::gelu),
      CHANGES(experts, latent_size, "architectures/nemotron-h-latent", it.latent_size *= 2),
      CHANGES(experts, is_beside_mlp, "architectures/gemma4-experts", it.is_beside_mlp = false),
      CHANGES(experts, swiglu_limit, "architectures/gpt-oss", it.swiglu_limit = 3),
      CHANGES(experts,
              of_rank,
              "architectures/mixtral",
              it.of_rank = weights::ExpertRange{.begin = 0, .count = 2}),
      CHANGES(experts, engines, "architectures/mixtral", it.engines = 2),

      CHANGES(vectors, type, "pooling/bert-cls", it.type = weights::PoolingType::mean),
      LEAVES(vectors, normalizes, "pooling/bert-cls", it.normalizes = !it.normalizes),
      CHANGES(vectors, dense, "a projection of vectors", it.dense.clear()),
      LEAVES(vectors, max_text_length, "pooling/bert-cls", it.max_text_length = 9),

      LEAVES(projection, folder, "a projection of vectors", it.folder = "2_Dense"),
      CHANGES(projection,
              in_features,
              "a projection of vectors",
              it.in_features *= 2,
              model.hidden_size *= 2),
      CHANGES(projection, out_features, "a projection of vectors", it.out_features *= 2),
      CHANGES(projection, has_bias, "a projection of vectors", it.has_bias = !it.has_bias),
      CHANGES(projection,
              activation,
              "a projection of vectors",
              it.activation = weights::DenseActivation::relu),

      CHANGES(labels, num_labels, "classifiers/bert-labels", it.num_labels = 5),
      LEAVES(labels, labels, "classifiers/bert-labels", it.labels = {"a", "b", "c"}),
      LEAVES(labels,
             activation,
             "classifiers/bert-labels",
             it.activation = weights::ClassifierActivation::none),
      CHANGES(labels, from_tokens, "classifiers/qwen3-yes-no", it.from_tokens.clear()),
      LEAVES(labels, from_token_ids, "classifiers/qwen3-yes-no", it.from_token_ids = {3, 4}),
      CHANGES(labels,
              pooler_activation,
              "classifiers/bert-labels",
              it.pooler_activation = weights::DenseActivation::relu),
      CHANGES(labels, pooler_bias, "classifiers/bert-labels", it.pooler_bias = false),
      LEAVES(labels, pooling, "classifiers/bert-labels", it.pooling = weights::PoolingType::mean),
      LEAVES(labels, uses_chat_template, "classifiers/bert-labels", it.uses_chat_template = true),
  };
}

ModelConfig model_of(const std::string& golden) {
  if (golden == "two stages") {
    ModelConfig model = config_of("tiny-llama");
    model.pipeline_parallel_size = 2;
    model.tensor_parallel_size = 2;
    return model;
  }
  if (golden == "a projection of vectors") {
    ModelConfig model = config_of("pooling/bert-cls");
    model.pooling.emplace();
    model.pooling->dense = {{.in_features = model.hidden_size, .out_features = 24}};
    return model;
  }
  ModelConfig model = config_of(golden);
  // The start decides that these models make vectors.
  const bool pools = golden.starts_with("pooling/") || golden.starts_with("classifiers/");
  if (pools && !model.pooling) model.pooling.emplace();
  return model;
}

std::string key_of_model(ModelConfig model) {
  Engine engine;
  engine.model = std::move(model);
  return key_of(engine);
}

TEST(CompileCacheKey, changes_with_every_member_of_a_model_that_changes_the_program) {
  std::map<std::string, std::string> keys;  // of the golden models
  for (const Row& row : all_rows()) {
    SCOPED_TRACE(row.member + " of " + row.golden);
    const ModelConfig model = model_of(row.golden);
    ModelConfig changed = model;
    row.change(changed);
    EXPECT_FALSE(row.is_same(model, changed)) << "the row does not change its member";
    const auto [base, is_new] = keys.try_emplace(row.golden);
    try {
      if (is_new) base->second = key_of_model(model);
      const std::string key = key_of_model(std::move(changed));
      EXPECT_EQ(key != base->second, row.effect == Effect::changes_the_key);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(CompileCacheKey, has_a_row_for_every_member_of_a_model) {
  std::map<std::string, std::set<std::string>> members;  // by part
  for (const Row& row : all_rows()) {
    members[row.member.substr(0, row.member.find('.'))].insert(row.member);
  }
  EXPECT_EQ(members["whole"].size(), count_members<ModelConfig>());
  EXPECT_EQ(members["latents"].size(), count_members<weights::LatentAttentionConfig>());
  EXPECT_EQ(members["position_index"].size(), count_members<weights::PositionIndexConfig>());
  EXPECT_EQ(members["recurrence"].size(), count_members<weights::RecurrentConfig>());
  EXPECT_EQ(members["multipliers"].size(), count_members<weights::LayerMultipliers>());
  EXPECT_EQ(members["rotation"].size(), count_members<weights::RopeParameters>());
  EXPECT_EQ(members["temperature"].size(), count_members<weights::AttentionTemperature>());
  EXPECT_EQ(members["text_encoder"].size(), count_members<weights::EncoderConfig>());
  EXPECT_EQ(members["experts"].size(), count_members<weights::MixtureOfExperts>());
  EXPECT_EQ(members["vectors"].size(), count_members<weights::PoolingConfig>());
  EXPECT_EQ(members["projection"].size(), count_members<weights::DenseModule>());
  EXPECT_EQ(members["labels"].size(), count_members<weights::ClassifierConfig>());
}

// ---- everything else

struct Change {
  const char* name;
  void (*apply)(Engine& engine);
};

TEST(CompileCacheKey, changes_with_every_option_that_changes_the_program) {
  const std::vector<Change> changes = {
      {"dtype", [](Engine& e) { e.dtype = DType::bf16; }},
      {"cache dtype", [](Engine& e) { e.kv_cache_dtype = "fp8"; }},
      {"max_model_len", [](Engine& e) { e.max_model_len = 32; }},
      {"block_size", [](Engine& e) { e.block_size = 32; }},
      {"adapters", [](Engine& e) { e.num_adapters = 2; }},
      {"more adapters", [](Engine& e) { e.num_adapters = 3; }},
      {"a result of a layer", [](Engine& e) { e.auxiliary.layers = {1}; }},
      {"the last hidden states", [](Engine& e) { e.auxiliary.last_hidden = true; }},
      {"isa", [](Engine& e) { e.options.isa = kernels::Isa::avx512; }},
      {"level",
       [](Engine& e) {
         e.options.resolved.compilation_mode = config::CompilationMode::DYNAMO_TRACE_ONCE;
       }},
      {"splitting_ops",
       [](Engine& e) { e.options.resolved.splitting_ops = {"attention", "kv_write"}; }},
      {"partition", [](Engine& e) { e.options.asked.use_inductor_graph_partition = true; }},
      {"a pass", [](Engine& e) { e.options.resolved.pass_config.fuse_rope_kvcache = true; }},
      {"no-op pass", [](Engine& e) { e.options.resolved.pass_config.eliminate_noops = false; }},
      {"ranges", [](Engine& e) { e.options.asked.compile_ranges_endpoints = {8}; }},
      {"compile sizes", [](Engine& e) { e.options.resolved.compile_sizes = {8}; }},
      {"norms in products", [](Engine& e) { e.options.norm_prologue_max_token_num = 8; }},
      {"a code generator", [](Engine& e) { e.options.generator = {.name = "a", .identity = "1"}; }},
      {"another version of it",
       [](Engine& e) { e.options.generator = {.name = "a", .identity = "2"}; }},
  };
  std::set<std::string> keys = {key_of(Engine())};
  for (const auto& [name, apply] : changes) {
    Engine changed;
    apply(changed);
    EXPECT_TRUE(keys.insert(key_of(changed)).second) << name;
  }
}

TEST(CompileCacheKey, is_independent_of_what_leaves_the_program) {
  const std::vector<Change> changes = {
      {"cache blocks", [](Engine& e) { e.num_blocks = 9; }},
      {"states of a model without them", [](Engine& e) { e.num_states = 5; }},
      {"capture sizes", [](Engine& e) { e.options.asked.cudagraph_capture_sizes = {1, 2, 4}; }},
      {"graph mode", [](Engine& e) { e.options.resolved.mode = cudagraph::CudagraphMode::FULL; }},
      {"dump", [](Engine& e) { e.options.asked.debug_dump_path = "somewhere"; }},
      {"cache place", [](Engine& e) { e.options.cache_root = "somewhere"; }},
  };
  const std::string key = key_of(Engine());
  for (const auto& [name, apply] : changes) {
    Engine changed;
    apply(changed);
    EXPECT_EQ(key_of(changed), key) << name;
  }
  Engine recurrent;
  recurrent.model = config_of("architectures/mamba2");
  const std::string of_two_states = key_of(recurrent);
  recurrent.num_states = 3;
  EXPECT_NE(key_of(recurrent), of_two_states) << "a program has the number of state slots";
}

}  // namespace
}  // namespace reprise
