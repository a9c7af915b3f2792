#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/models/causal_lm.h"
#include "reprise/models/classifier_head.h"
#include "reprise/models/dense_head.h"
#include "reprise/models/layer_embedding.h"
#include "reprise/models/layer_parts.h"
#include "reprise/models/norm.h"

namespace reprise::models {

class CrossAttention;

/// One layer of a decoder. A model file defines how it connects attention, MLP and norms.
class DecoderLayer {
 public:
  virtual ~DecoderLayer() = default;

  [[nodiscard]] virtual Tensor forward(cudagraph::ForwardContext& context,
                                       const Tensor& hidden,
                                       const Tensor& positions) const = 0;
  /// Like forward(), for a layer that also reads its own embedding of each token.
  [[nodiscard]] virtual Tensor forward_with(cudagraph::ForwardContext& context,
                                            const Tensor& hidden,
                                            const Tensor& positions,
                                            const Tensor& /*layer_input*/) const {
    return forward(context, hidden, positions);
  }
  /// nullptr: the layer has only an MLP or experts.
  [[nodiscard]] virtual attention::AttentionLayer* attention() noexcept = 0;
  /// A recurrence beside the attention; nullptr: the layer has none.
  [[nodiscard]] virtual attention::AttentionLayer* recurrence() noexcept { return nullptr; }
  /// The attention to the text of an encoder; nullptr: the layer has none.
  [[nodiscard]] virtual CrossAttention* cross_attention() noexcept { return nullptr; }
};

using MakeDecoderLayer = std::unique_ptr<DecoderLayer> (*)(const LayerParts& parts);

/// The parts that all models share: embedding, layers, norm, and logits or vectors of texts. An
/// encoder is a Decoder whose layers attend in both directions.
class Decoder final : public CausalLM {
 public:
  Decoder(const weights::ModelConfig& config,
          int64_t max_positions,
          Parameters& parameters,
          MakeDecoderLayer make_layer,
          lora::AdapterSlots* adapters,
          const ExpertCounting* expert_counting);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& input_ids,
                               const Tensor& positions) override;
  [[nodiscard]] Tensor compute_logits(const Tensor& hidden,
                                      const Tensor& logits_indices,
                                      const Tensor& num_logits) override;
  [[nodiscard]] std::span<attention::AttentionLayer* const> attention_layers() override {
    return attention_layers_;
  }
  void set_auxiliary(AuxiliaryStates states) override { auxiliary_ = std::move(states); }
  [[nodiscard]] SharedTensors shared_tensors() const override {
    return {.embedding = embedding_, .lm_head = lm_head_};
  }

  /// The cross attention of each layer; empty: there is no encoder.
  [[nodiscard]] std::vector<CrossAttention*> cross_attentions() const;

 private:
  /// This rank's stage, if the layers are divided among stages.
  struct Stage {
    int64_t count;
    int64_t number;
    int64_t tensor_rank;  // in the stage
  };

  /// Runs the layers of all stages, one stage after the other.
  [[nodiscard]] Tensor run_layers(cudagraph::ForwardContext& context,
                                  Tensor hidden,
                                  const Tensor& positions,
                                  const Tensor& layer_inputs) const;
  /// Stores the input of this layer if a draft head reads it.
  void keep_auxiliary(cudagraph::ForwardContext& context, size_t layer, const Tensor& hidden) const;
  [[nodiscard]] Tensor pool(const Tensor& hidden,
                            const Tensor& last_tokens,
                            const Tensor& num_texts) const;

  float embedding_scale_;
  float logits_scale_;
  float logits_soft_cap_;  // 0 = none
  Tensor embedding_;
  /// Projections between the layers and an embedding of another size; undefined: there are none.
  struct EmbeddingProjections {
    Tensor to_layers;
    Tensor to_lm_head;
  } projections_;
  /// Embeddings of positions, and of token types: the embedding of the first type, repeated for
  /// each position. If texts are told apart (see StepEntry::second_text_begin), the embedding of
  /// the second type follows.
  std::vector<Tensor> position_tables_;
  std::optional<Norm> embedding_norm_;
  std::optional<LayerEmbedding> layer_embedding_;
  std::vector<std::unique_ptr<DecoderLayer>> layers_;
  // The norm of the last hidden states; nothing: the layers do this themselves.
  std::optional<Norm> norm_;
  Tensor lm_head_;  // the embedding itself if tied; undefined: the model makes vectors
  int64_t vocab_size_;
  // The number of ranks, each of which computes the logits of a part of the vocabulary.
  int64_t ranks_;
  Stage stage_;
  std::optional<weights::PoolingType> pooling_;
  std::optional<ClassifierHead> classifier_;
  std::optional<DenseHead> dense_;  // given if the model pools
  AuxiliaryStates auxiliary_;       // the hidden states of this model that a draft head reads
  std::vector<attention::AttentionLayer*> attention_layers_;
};

}  // namespace reprise::models
