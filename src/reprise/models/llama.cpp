#include "reprise/models/llama.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "reprise/models/projection.h"
#include "reprise/models/rope_table.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

// "model.layers.3." + suffix
class LayerNames {
 public:
  explicit LayerNames(int64_t layer) : prefix_(fmt::format("model.layers.{}.", layer)) {}
  [[nodiscard]] std::string operator()(std::string_view suffix) const {
    return prefix_ + std::string(suffix);
  }

 private:
  std::string prefix_;
};

template <size_t kCount>
Tensor load_stacked(Parameters& parameters, const std::array<std::string, kCount>& names) {
  std::array<std::string_view, kCount> views;
  for (size_t i = 0; i < kCount; ++i) views[i] = names[i];
  return parameters.load_stacked(views);
}

template <size_t kCount>
Tensor load_projections(Parameters& parameters, const std::array<std::string, kCount>& names) {
  std::array<std::string_view, kCount> views;
  for (size_t i = 0; i < kCount; ++i) views[i] = names[i];
  return parameters.load_projection(views);
}

Tensor load_if(bool wanted, Parameters& parameters, const std::string& name) {
  return wanted ? parameters.load(name) : Tensor{};
}

}  // namespace

LlamaAttention::LlamaAttention(const weights::ModelConfig& config,
                               int64_t layer,
                               Parameters& parameters,
                               Tensor rope_table)
    : num_heads_(config.num_attention_heads),
      num_kv_heads_(config.num_key_value_heads),
      q_size_(config.q_size()),
      kv_size_(config.kv_size()),
      norm_epsilon_(static_cast<float>(config.rms_norm_eps)),
      rope_table_(std::move(rope_table)),
      attention_({.num_heads = config.num_attention_heads,
                  .num_kv_heads = config.num_key_value_heads,
                  .head_dim = config.head_dim,
                  .sliding_window = config.window_of_layer(layer).value_or(0)},
                 layer) {
  const LayerNames name(layer);
  qkv_weight_ = load_projections<3>(parameters,
                                    {name("self_attn.q_proj.weight"),
                                     name("self_attn.k_proj.weight"),
                                     name("self_attn.v_proj.weight")});
  if (config.qkv_bias) {
    qkv_bias_ = load_stacked<3>(parameters,
                                {name("self_attn.q_proj.bias"),
                                 name("self_attn.k_proj.bias"),
                                 name("self_attn.v_proj.bias")});
  }
  o_weight_ = parameters.load_projection(name("self_attn.o_proj.weight"));
  o_bias_ = load_if(config.o_bias, parameters, name("self_attn.o_proj.bias"));
  q_norm_ = load_if(config.qk_norm, parameters, name("self_attn.q_norm.weight"));
  k_norm_ = load_if(config.qk_norm, parameters, name("self_attn.k_norm.weight"));
}

Tensor LlamaAttention::forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const {
  const Tensor qkv = project(hidden, qkv_weight_, qkv_bias_);
  Tensor q = ops::unflatten(ops::slice(qkv, 1, 0, q_size_), num_heads_);
  Tensor k = ops::unflatten(ops::slice(qkv, 1, q_size_, kv_size_), num_kv_heads_);
  const Tensor v = ops::unflatten(ops::slice(qkv, 1, q_size_ + kv_size_, kv_size_), num_kv_heads_);
  if (q_norm_.defined()) {
    q = ops::rms_norm(q, q_norm_, norm_epsilon_);
    k = ops::rms_norm(k, k_norm_, norm_epsilon_);
  }
  std::tie(q, k) = ops::rope(q, k, positions, rope_table_);
  const Tensor attended = attention_(context, q, k, v);
  return project(ops::flatten(attended), o_weight_, o_bias_);
}

LlamaMlp::LlamaMlp(const weights::ModelConfig& config, int64_t layer, Parameters& parameters) {
  const LayerNames name(layer);
  gate_up_weight_ =
      load_projections<2>(parameters, {name("mlp.gate_proj.weight"), name("mlp.up_proj.weight")});
  if (config.mlp_bias) {
    gate_up_bias_ =
        load_stacked<2>(parameters, {name("mlp.gate_proj.bias"), name("mlp.up_proj.bias")});
  }
  down_weight_ = parameters.load_projection(name("mlp.down_proj.weight"));
  down_bias_ = load_if(config.mlp_bias, parameters, name("mlp.down_proj.bias"));
}

Tensor LlamaMlp::forward(const Tensor& hidden) const {
  const Tensor gate_up = project(hidden, gate_up_weight_, gate_up_bias_);
  return project(ops::silu_and_mul(gate_up), down_weight_, down_bias_);
}

LlamaDecoderLayer::LlamaDecoderLayer(const weights::ModelConfig& config,
                                     int64_t layer,
                                     Parameters& parameters,
                                     Tensor rope_table)
    : norm_epsilon_(static_cast<float>(config.rms_norm_eps)),
      input_norm_(parameters.load(LayerNames(layer)("input_layernorm.weight"))),
      post_attention_norm_(parameters.load(LayerNames(layer)("post_attention_layernorm.weight"))),
      self_attention_(config, layer, parameters, std::move(rope_table)),
      mlp_(config, layer, parameters) {}

Tensor LlamaDecoderLayer::forward(cudagraph::ForwardContext& context,
                                  const Tensor& hidden,
                                  const Tensor& positions) const {
  const Tensor attended = self_attention_.forward(
      context, ops::rms_norm(hidden, input_norm_, norm_epsilon_), positions);
  const Tensor residual = ops::add(hidden, attended);
  const Tensor transformed =
      mlp_.forward(ops::rms_norm(residual, post_attention_norm_, norm_epsilon_));
  return ops::add(residual, transformed);
}

LlamaForCausalLM::LlamaForCausalLM(const weights::ModelConfig& config,
                                   int64_t max_positions,
                                   Parameters& parameters)
    : norm_epsilon_(static_cast<float>(config.rms_norm_eps)),
      hidden_size_(config.hidden_size),
      dtype_(parameters.dtype()),
      embedding_(parameters.load_projection("model.embed_tokens.weight")) {
  const Tensor rope_table =
      parameters.add_table("rope_table",
                           make_rope_table(config.rope, config.head_dim, max_positions),
                           {max_positions, config.head_dim});
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    layers_.push_back(std::make_unique<LlamaDecoderLayer>(config, layer, parameters, rope_table));
    attention_layers_.push_back(&layers_.back()->attention());
  }
  norm_ = parameters.load("model.norm.weight");
  lm_head_ = config.tie_word_embeddings ? embedding_ : parameters.load_projection("lm_head.weight");
}

Tensor LlamaForCausalLM::forward(cudagraph::ForwardContext& context,
                                 const Tensor& input_ids,
                                 const Tensor& positions) {
  Tensor hidden = embed(input_ids, embedding_, hidden_size_, dtype_);
  for (const auto& layer : layers_) hidden = layer->forward(context, hidden, positions);
  return ops::rms_norm(hidden, norm_, norm_epsilon_);
}

Tensor LlamaForCausalLM::compute_logits(const Tensor& hidden,
                                        const Tensor& logits_indices,
                                        const Tensor& num_logits) {
  return project_to_logits(ops::gather_rows(hidden, logits_indices), lm_head_, num_logits);
}

}  // namespace reprise::models
