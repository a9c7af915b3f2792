#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/models/causal_lm.h"

/// Llama and the decoders that differ from it by a flag of their configuration: Mistral (sliding
/// window), Qwen2 (bias on q, k and v), Qwen3 (norm over each head of q and k).
namespace reprise::models {

class LlamaAttention {
 public:
  LlamaAttention(const weights::ModelConfig& config,
                 int64_t layer,
                 Parameters& parameters,
                 Tensor rope_table);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const;

  [[nodiscard]] attention::AttentionLayer& attention() noexcept { return attention_; }

 private:
  int64_t num_heads_;
  int64_t num_kv_heads_;
  int64_t q_size_;
  int64_t kv_size_;
  float norm_epsilon_;
  Tensor qkv_weight_;
  Tensor qkv_bias_;  // undefined = none
  Tensor o_weight_;
  Tensor o_bias_;      // undefined = none
  Tensor q_norm_;      // undefined = none
  Tensor k_norm_;      // undefined = none
  Tensor rope_table_;  // shared by all layers
  attention::AttentionLayer attention_;
};

class LlamaMlp {
 public:
  LlamaMlp(const weights::ModelConfig& config, int64_t layer, Parameters& parameters);

  [[nodiscard]] Tensor forward(const Tensor& hidden) const;

 private:
  Tensor gate_up_weight_;
  Tensor gate_up_bias_;  // undefined = none
  Tensor down_weight_;
  Tensor down_bias_;  // undefined = none
};

class LlamaDecoderLayer {
 public:
  LlamaDecoderLayer(const weights::ModelConfig& config,
                    int64_t layer,
                    Parameters& parameters,
                    Tensor rope_table);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const;

  [[nodiscard]] attention::AttentionLayer& attention() noexcept {
    return self_attention_.attention();
  }

 private:
  float norm_epsilon_;
  Tensor input_norm_;
  Tensor post_attention_norm_;
  LlamaAttention self_attention_;
  LlamaMlp mlp_;
};

class LlamaForCausalLM final : public CausalLM {
 public:
  LlamaForCausalLM(const weights::ModelConfig& config,
                   int64_t max_positions,
                   Parameters& parameters);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& input_ids,
                               const Tensor& positions) override;
  [[nodiscard]] Tensor compute_logits(const Tensor& hidden,
                                      const Tensor& logits_indices,
                                      const Tensor& num_logits) override;
  [[nodiscard]] std::span<attention::AttentionLayer* const> attention_layers() override {
    return attention_layers_;
  }

 private:
  float norm_epsilon_;
  int64_t hidden_size_;
  DType dtype_;
  Tensor embedding_;
  std::vector<std::unique_ptr<LlamaDecoderLayer>> layers_;
  Tensor norm_;
  Tensor lm_head_;  // when tied: the embedding itself
  std::vector<attention::AttentionLayer*> attention_layers_;
};

}  // namespace reprise::models
