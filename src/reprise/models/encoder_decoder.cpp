#include "reprise/models/encoder_decoder.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/models/layers.h"
#include "reprise/models/projection.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

std::string module_of_encoder(const weights::ModelConfig& config,
                              std::string_view weights::DecoderTensors::* name) {
  return std::string(weights::encoder_tensors(config).*name);
}

Tensor load_encoder_positions(const weights::ModelConfig& config, Parameters& parameters) {
  Arrangement arrangement;
  for (int64_t row = 0; row < config.max_position_embeddings; ++row) {
    arrangement.rows.push_back(row + config.learned_position_offset);
  }
  const std::string module =
      module_of_encoder(config, &weights::DecoderTensors::position_embedding);
  return parameters.load(module + ".weight", arrangement);
}

}  // namespace

EncoderDecoder::EncoderDecoder(const weights::ModelConfig& config,
                               Parameters& parameters,
                               std::unique_ptr<Decoder> decoder)
    : decoder_(std::move(decoder)),
      embedding_scale_(static_cast<float>(config.embedding_scale)),
      embedding_(decoder_->shared_tensors().embedding),
      position_embedding_(load_encoder_positions(config, parameters)),
      embedding_norm_(
          config, parameters, module_of_encoder(config, &weights::DecoderTensors::embedding_norm)),
      cross_attentions_(decoder_->cross_attentions()) {
  if (!parameters.holds_only_zeros(weights::kFinalLogitsBias)) {
    throw FileError("E_VALUE",
                    "the checkpoint",
                    weights::kFinalLogitsBias,
                    "has numbers other than zero; only checkpoints without a bias of the logits "
                    "are supported");
  }
  const weights::ModelConfig own = weights::config_of_encoder(config);
  const weights::DecoderTensors names = weights::encoder_tensors(config);
  for (int64_t layer = 0; layer < own.num_hidden_layers; ++layer) {
    layers_.push_back(make_bert_layer(LayerParts{.config = own,
                                                 .names = names,
                                                 .parameters = parameters,
                                                 .layer = layer,
                                                 .rope_table = {},
                                                 .is_of_encoder = true}));
  }
  const auto of_decoder = decoder_->attention_layers();
  attention_layers_.assign(of_decoder.begin(), of_decoder.end());
  for (CrossAttention* cross : cross_attentions_) attention_layers_.push_back(&cross->attention());
  for (const auto& layer : layers_) attention_layers_.push_back(layer->attention());
}

void EncoderDecoder::encode(cudagraph::ForwardContext& context,
                            const Tensor& input_ids,
                            const Tensor& positions) {
  Tensor hidden = ops::embedding(input_ids, embedding_);
  if (embedding_scale_ != 1) hidden = ops::scale(hidden, embedding_scale_);
  hidden = embedding_norm_(ops::add(hidden, ops::embedding(positions, position_embedding_)));
  for (const auto& layer : layers_) hidden = layer->forward(context, hidden, positions);
  for (const CrossAttention* cross : cross_attentions_) cross->write(context, hidden);
}

}  // namespace reprise::models
