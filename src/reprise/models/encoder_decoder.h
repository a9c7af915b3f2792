#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "reprise/models/cross_attention.h"
#include "reprise/models/decoder.h"

namespace reprise::models {

/// A decoder whose layers attend to the hidden states of an encoder. encode() runs once for each
/// text, before the first step of its request; forward() is the decoder alone.
class EncoderDecoder final : public CausalLM {
 public:
  EncoderDecoder(const weights::ModelConfig& config,
                 Parameters& parameters,
                 std::unique_ptr<Decoder> decoder);

  void encode(cudagraph::ForwardContext& context,
              const Tensor& input_ids,
              const Tensor& positions) override;
  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& input_ids,
                               const Tensor& positions) override {
    return decoder_->forward(context, input_ids, positions);
  }
  [[nodiscard]] Tensor compute_logits(const Tensor& hidden,
                                      const Tensor& logits_indices,
                                      const Tensor& num_logits) override {
    return decoder_->compute_logits(hidden, logits_indices, num_logits);
  }
  [[nodiscard]] std::span<attention::AttentionLayer* const> attention_layers() override {
    return attention_layers_;
  }
  [[nodiscard]] bool has_encoder() const override { return true; }
  /// As in vLLM, models with an encoder are not compiled. The encoder runs eagerly and is never
  /// traced; the decoder's graphs need no program.
  [[nodiscard]] CompileSupport compile_support() const override { return {.do_not_compile = true}; }

 private:
  std::unique_ptr<Decoder> decoder_;
  float embedding_scale_;
  Tensor embedding_;  // the decoder's
  Tensor position_embedding_;
  Norm embedding_norm_;
  std::vector<std::unique_ptr<DecoderLayer>> layers_;
  std::vector<CrossAttention*> cross_attentions_;  // of the decoder's layers
  std::vector<attention::AttentionLayer*> attention_layers_;
};

}  // namespace reprise::models
