#include "reprise/models/draft_head.h"

#include <utility>

#include "reprise/models/attention_block.h"
#include "reprise/models/feed_forward.h"
#include "reprise/models/layers.h"
#include "reprise/models/projection.h"
#include "reprise/models/rope_table.h"
#include "reprise/tensor/ops.h"
#include "reprise/weights/sources/draft_head_tensors.h"

namespace reprise::models {
namespace {

namespace head_tensors = weights::head_tensors;

/// A matrix of the head's checkpoint or, if the checkpoint lacks it, the target's.
Tensor own_or_shared(Parameters& parameters, std::string_view name, const Tensor& of_target) {
  if (parameters.has_stored(name)) return parameters.load_projection(name);
  REPRISE_ASSERT(of_target.defined(), "neither the head nor its target has {}", name);
  return parameters.share(name, of_target);
}

}  // namespace

/// The inputs of every head's constructor: the checkpoint, the parts of the head's only layer, and
/// the projection of its inputs.
struct DraftHead::Parts {
  Parts(const weights::DraftHeadConfig& head,
        int64_t max_positions,
        Parameters& head_parameters,
        const SharedTensors& shared,
        std::vector<int32_t> ids)
      : config(head),
        parameters(head_parameters),
        target(shared),
        target_ids(std::move(ids)),
        names(weights::decoder_tensors(head.model)),
        layer({.config = head.model,
               .names = names,
               .parameters = parameters,
               .rope_table = parameters.add_table(
                   "rope_table",
                   make_rope_table(head.model.rope, head.model.head_dim, max_positions),
                   {max_positions, head.model.head_dim})}),
        fc(parameters.load_projection(head_tensors::kFc)) {}

  const weights::DraftHeadConfig& config;
  Parameters& parameters;
  const SharedTensors& target;
  std::vector<int32_t> target_ids;
  weights::DecoderTensors names;
  LayerParts layer;
  Tensor fc;
};

namespace {

/// Source: EAGLE (SafeAILab/EAGLE, cnets1.py) as in vLLM 0.32, llama_eagle.py: a projection of
/// embedding and hidden state, a Llama layer without its first norm, and no last norm.
class EagleHead final : public DraftHead {
 public:
  explicit EagleHead(const Parts& parts)
      : DraftHead(parts),
        fc_(parts.fc),
        attention_(make_attention_block(parts.layer)),
        mlp_norm_(parts.layer, parts.names.mlp_norm),
        mlp_(make_feed_forward(parts.layer)) {
    set_attention(attention_->attention());
  }

 private:
  [[nodiscard]] Tensor predict(cudagraph::ForwardContext& context,
                               const Tensor& embedded,
                               const Tensor& positions) const override {
    const Tensor hidden = project(side_by_side(embedded, context.hidden_states), fc_);
    const Tensor residual = ops::add(hidden, (*attention_)(context, hidden, positions));
    context.auxiliary = ops::add(residual, (*mlp_)(context, mlp_norm_(residual)));
    return context.auxiliary;
  }

  Tensor fc_;
  std::unique_ptr<AttentionBlock> attention_;
  Norm mlp_norm_;
  std::unique_ptr<FeedForward> mlp_;
};

/// Source: EAGLE-3 (cnets.py) as in vLLM 0.32, llama_eagle3.py: attention reads the normed
/// embedding and the normed hidden state side by side.
class Eagle3Head final : public DraftHead {
 public:
  explicit Eagle3Head(const Parts& parts)
      : DraftHead(parts),
        norm_before_residual_(parts.config.norm_before_residual),
        norm_output_(parts.config.norm_output),
        fc_(parts.fc),
        embedding_norm_(parts.layer, parts.names.attention_norm),
        hidden_norm_(parts.config.model, parts.parameters, std::string(head_tensors::kHiddenNorm)),
        attention_(make_attention_block(parts.layer)),
        mlp_norm_(parts.layer, parts.names.mlp_norm),
        mlp_(make_feed_forward(parts.layer)),
        final_norm_(parts.config.model, parts.parameters, std::string(head_tensors::kFinalNorm)) {
    set_attention(attention_->attention());
  }

  [[nodiscard]] Tensor combine(const Tensor& features) const override {
    return project(features, fc_);
  }

 private:
  [[nodiscard]] Tensor predict(cudagraph::ForwardContext& context,
                               const Tensor& embedded,
                               const Tensor& positions) const override {
    const Tensor normed = hidden_norm_(context.hidden_states);
    const Tensor both = side_by_side(embedding_norm_(embedded), normed);
    const Tensor attended = (*attention_)(context, both, positions);
    const Tensor residual =
        ops::add(norm_before_residual_ ? normed : context.hidden_states, attended);
    const Tensor hidden = ops::add(residual, (*mlp_)(context, mlp_norm_(residual)));
    const Tensor final = final_norm_(hidden);
    context.auxiliary = norm_output_ ? final : hidden;
    return final;
  }

  bool norm_before_residual_;
  bool norm_output_;
  Tensor fc_;
  Norm embedding_norm_;
  Norm hidden_norm_;
  std::unique_ptr<AttentionBlock> attention_;
  Norm mlp_norm_;
  std::unique_ptr<FeedForward> mlp_;
  Norm final_norm_;
};

/// Source: DeepSeek-V3, section 2.2, as in vLLM 0.32, deepseek_mtp.py. The difference: the
/// embedding of position 0 is not replaced by zeros, which only affects drafts. Qwen's heads are
/// the same, but later steps read normed hidden states: vLLM 0.32, qwen3_next_mtp.py.
class MtpHead final : public DraftHead {
 public:
  explicit MtpHead(const Parts& parts)
      : DraftHead(parts),
        norm_output_(parts.config.norm_output),
        fc_(parts.fc),
        embedding_norm_(
            parts.config.model, parts.parameters, std::string(head_tensors::kEmbeddingNorm)),
        target_norm_(parts.config.model, parts.parameters, std::string(head_tensors::kTargetNorm)),
        layer_(make_llama_layer(parts.layer)),
        final_norm_(parts.config.model, parts.parameters, std::string(head_tensors::kFinalNorm)) {
    set_attention(*layer_->attention());
  }

 private:
  [[nodiscard]] Tensor predict(cudagraph::ForwardContext& context,
                               const Tensor& embedded,
                               const Tensor& positions) const override {
    const Tensor both =
        side_by_side(embedding_norm_(embedded), target_norm_(context.hidden_states));
    const Tensor hidden = layer_->forward(context, project(both, fc_), positions);
    const Tensor final = final_norm_(hidden);
    context.auxiliary = norm_output_ ? final : hidden;
    return final;
  }

  bool norm_output_;
  Tensor fc_;
  Norm embedding_norm_;
  Norm target_norm_;
  std::unique_ptr<DecoderLayer> layer_;
  Norm final_norm_;
};

}  // namespace

DraftHead::DraftHead(const Parts& parts)
    : config_(parts.config),
      embedding_(own_or_shared(parts.parameters, head_tensors::kEmbedding, parts.target.embedding)),
      lm_head_(own_or_shared(parts.parameters, head_tensors::kLmHead, parts.target.lm_head)),
      target_ids_(parts.target_ids) {}

Tensor DraftHead::forward(cudagraph::ForwardContext& context,
                          const Tensor& input_ids,
                          const Tensor& positions) {
  return predict(context, ops::embedding(input_ids, embedding_), positions);
}

Tensor DraftHead::compute_logits(const Tensor& hidden,
                                 const Tensor& logits_indices,
                                 const Tensor& num_logits) {
  return project_to_logits(ops::gather_rows(hidden, logits_indices), lm_head_, num_logits);
}

std::unique_ptr<DraftHead> create_draft_head(const weights::DraftHeadConfig& config,
                                             int64_t max_positions,
                                             Parameters& parameters,
                                             const SharedTensors& target,
                                             std::vector<int32_t> target_ids) {
  const DraftHead::Parts parts(config, max_positions, parameters, target, std::move(target_ids));
  switch (config.kind) {
    case weights::DraftHeadKind::eagle:
      return std::make_unique<EagleHead>(parts);
    case weights::DraftHeadKind::eagle3:
      return std::make_unique<Eagle3Head>(parts);
    case weights::DraftHeadKind::mtp:
    case weights::DraftHeadKind::qwen_mtp:
      break;
  }
  return std::make_unique<MtpHead>(parts);
}

AuxiliaryStates auxiliary_states(const weights::DraftHeadConfig& config) {
  return {.layers = config.auxiliary_layers, .last_hidden = config.auxiliary_layers.empty()};
}

}  // namespace reprise::models
