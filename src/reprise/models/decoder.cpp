#include "reprise/models/decoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/models/alibi_table.h"
#include "reprise/models/projection.h"
#include "reprise/models/qkv_rows.h"
#include "reprise/models/rope_table.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

std::string weight_of(std::string_view module) { return std::string(module) + ".weight"; }

Tensor load_positions(const weights::ModelConfig& config,
                      const weights::DecoderTensors& names,
                      Parameters& parameters) {
  if (!config.has_learned_positions) return {};
  Arrangement arrangement;
  const int num_copies = config.second_text_offset() > 0 ? 2 : 1;
  if (config.learned_position_offset > 0 || num_copies > 1) {
    for (int64_t row = 0; row < num_copies * config.max_position_embeddings; ++row) {
      arrangement.rows.push_back(row % config.max_position_embeddings +
                                 config.learned_position_offset);
    }
  }
  return parameters.load(weight_of(names.position_embedding), arrangement);
}

// Row p of the table is the embedding of the token type at position p. The positions of a second
// text begin after those of the first, so the second half of the table is of the second type.
Tensor load_token_types(const weights::ModelConfig& config,
                        const weights::DecoderTensors& names,
                        Parameters& parameters) {
  if (config.num_token_types == 0) return {};
  REPRISE_ASSERT(config.second_text_offset() == 0 || config.rope.type == weights::RopeType::none,
                 "the positions of second texts are beyond the rows of a rope table");
  const auto num_positions = static_cast<size_t>(config.max_position_embeddings);
  std::vector<int64_t> types(num_positions, 0);
  if (config.second_text_offset() > 0) types.resize(2 * num_positions, 1);
  return parameters.load(weight_of(names.token_type_embedding), {.rows = std::move(types)});
}

std::vector<Tensor> load_position_tables(const weights::ModelConfig& config,
                                         const weights::DecoderTensors& names,
                                         Parameters& parameters) {
  std::vector<Tensor> tables = {load_positions(config, names, parameters),
                                load_token_types(config, names, parameters)};
  std::erase_if(tables, [](const Tensor& table) { return !table.defined(); });
  return tables;
}

Tensor make_position_biases(const weights::ModelConfig& config,
                            int64_t max_positions,
                            Parameters& parameters) {
  if (!config.has_alibi) return {};
  return parameters.add_table("alibi_table",
                              make_alibi_table(config, max_positions),
                              {config.num_attention_heads, max_positions});
}

// The tables of rotations of full layers, of sliding layers, and of layers that do not rotate.
class RopeTables {
 public:
  RopeTables(const weights::ModelConfig& config, int64_t max_positions, Parameters& parameters)
      : config_(config) {
    if (config.rope.type == weights::RopeType::none) return;
    const Shape shape{max_positions, config.head_dim};
    const auto add =
        [&](std::string_view name, const weights::RopeParameters& rope, int64_t head_dim) {
          return parameters.add_table(
              name, make_rope_table(rope, head_dim, max_positions), {max_positions, head_dim});
        };
    // If heads have two sizes, sliding layers have a rotation of their own.
    table_ = add("rope_table",
                 config.rope,
                 config.full_heads ? config.full_heads->head_dim : config.head_dim);
    if (config.query_temperature && config.mla) {
      query_table_ =
          parameters.add_table("query_factor_table",
                               make_query_factor_table(*config.query_temperature, max_positions),
                               {max_positions, kFactorRow});
    } else if (config.query_temperature) {
      query_table_ = parameters.add_table(
          "query_rope_table",
          make_query_rope_table(
              config.rope, *config.query_temperature, config.head_dim, max_positions),
          shape);
    }
    if (config.sliding_rope) {
      sliding_table_ = add("sliding_rope_table", *config.sliding_rope, config.head_dim);
    }
    if (config.attention_temperature) {
      temperature_table_ = parameters.add_table(
          "temperature_table",
          make_temperature_table(*config.attention_temperature, config.head_dim, max_positions),
          shape);
    }
  }

  [[nodiscard]] Tensor of_layer(int64_t layer) const {
    if (!config_.rotates(layer)) return temperature_table_;
    return &config_.rope_of_layer(layer) == &config_.rope ? table_ : sliding_table_;
  }

  /// A table for the queries of all layers, instead of of_layer(); undefined: there is none.
  [[nodiscard]] const Tensor& of_queries() const { return query_table_; }

 private:
  const weights::ModelConfig& config_;
  Tensor table_;
  Tensor query_table_;
  Tensor sliding_table_;
  Tensor temperature_table_;  // of layers that do not rotate
};

}  // namespace

Decoder::Decoder(const weights::ModelConfig& config,
                 int64_t max_positions,
                 Parameters& parameters,
                 MakeDecoderLayer make_layer,
                 lora::AdapterSlots* adapters,
                 const ExpertCounting* expert_counting)
    : embedding_scale_(static_cast<float>(config.embedding_scale)),
      logits_scale_(static_cast<float>(config.logits_scale)),
      logits_soft_cap_(static_cast<float>(config.logits_soft_cap)),
      vocab_size_(config.vocab_size),
      ranks_(config.num_ranks()),
      stage_{.count = config.pipeline_parallel_size,
             .number = config.pipeline_rank,
             .tensor_rank = config.tensor_rank} {
  const weights::DecoderTensors names = weights::decoder_tensors(config);
  const bool is_only_looked_up = config.pooling || !config.tie_word_embeddings;
  embedding_ = is_only_looked_up ? parameters.load_table(weight_of(names.embedding))
                                 : parameters.load_projection(weight_of(names.embedding));
  if (!names.embedding_projection.empty()) {
    projections_.to_layers = parameters.load_projection(weight_of(names.embedding_projection));
    projections_.to_lm_head = parameters.load_projection(weight_of(names.hidden_projection));
  }
  position_tables_ = load_position_tables(config, names, parameters);
  if (!names.embedding_norm.empty()) {
    embedding_norm_.emplace(config, parameters, std::string(names.embedding_norm));
  }
  if (config.hidden_size_per_layer_input > 0) layer_embedding_.emplace(config, names, parameters);
  const RopeTables rope_tables(config, max_positions, parameters);
  const Tensor position_biases = make_position_biases(config, max_positions, parameters);
  for (int64_t layer = config.first_layer(); layer < config.end_layer(); ++layer) {
    layers_.push_back(make_layer({.config = config,
                                  .names = names,
                                  .parameters = parameters,
                                  .layer = layer,
                                  .rope_table = rope_tables.of_layer(layer),
                                  .query_rope_table = rope_tables.of_queries(),
                                  .position_biases = position_biases,
                                  .adapters = adapters,
                                  .expert_counting = expert_counting}));
    if (attention::AttentionLayer* attention = layers_.back()->attention()) {
      attention_layers_.push_back(attention);
    }
    if (attention::AttentionLayer* recurrence = layers_.back()->recurrence()) {
      attention_layers_.push_back(recurrence);
    }
  }
  if (!names.final_norm.empty()) {
    norm_.emplace(config, parameters, std::string(names.final_norm));
  }
  if (config.pooling) {
    pooling_ = config.pooling->type;
    if (config.classifier) classifier_.emplace(config, names, parameters);
    dense_.emplace(config, parameters);
    return;
  }
  REPRISE_ASSERT(!names.lm_head.empty(), "a model without logits is for pooling only");
  // A rank has the whole embedding, but only its rows of lm_head.
  lm_head_ = config.tie_word_embeddings && ranks_ == 1
                 ? embedding_
                 : parameters.load_projection(weight_of(names.lm_head));
}

Tensor Decoder::forward(cudagraph::ForwardContext& context,
                        const Tensor& input_ids,
                        const Tensor& positions) {
  Tensor hidden = ops::embedding(input_ids, embedding_);
  if (embedding_scale_ != 1) hidden = ops::scale(hidden, embedding_scale_);
  if (projections_.to_layers.defined()) hidden = project(hidden, projections_.to_layers);
  for (const Tensor& table : position_tables_) {
    hidden = ops::add(hidden, ops::embedding(positions, table));
  }
  if (embedding_norm_) hidden = (*embedding_norm_)(hidden);
  const Tensor layer_inputs = layer_embedding_ ? (*layer_embedding_)(input_ids, hidden) : Tensor();
  hidden = run_layers(context, hidden, positions, layer_inputs);
  const Tensor normed = norm_ ? (*norm_)(hidden) : hidden;
  if (auxiliary_.last_hidden) context.auxiliary = normed;
  return normed;
}

std::vector<CrossAttention*> Decoder::cross_attentions() const {
  std::vector<CrossAttention*> found;
  for (const auto& layer : layers_) {
    if (CrossAttention* cross = layer->cross_attention()) found.push_back(cross);
  }
  return found;
}

void Decoder::keep_auxiliary(cudagraph::ForwardContext& context,
                             size_t layer,
                             const Tensor& hidden) const {
  if (std::ranges::find(auxiliary_.layers, static_cast<int64_t>(layer)) ==
      auxiliary_.layers.end()) {
    return;
  }
  context.auxiliary =
      context.auxiliary.defined() ? side_by_side(context.auxiliary, hidden) : hidden;
}

// The stages run their layers in turn, so first only the ranks of one stage have the last result.
// An all-reduce gives the result to the other stages: the first rank of the stage adds the result,
// all other ranks add zeros. So every rank has the last hidden states, from which it computes its
// part of the logits.
Tensor Decoder::run_layers(cudagraph::ForwardContext& context,
                           Tensor hidden,
                           const Tensor& positions,
                           const Tensor& layer_inputs) const {
  for (int64_t stage = 0; stage < stage_.count; ++stage) {
    if (stage == stage_.number) {
      for (size_t layer = 0; layer < layers_.size(); ++layer) {
        keep_auxiliary(context, layer, hidden);
        const DecoderLayer& run = *layers_[layer];
        hidden = layer_embedding_
                     ? run.forward_with(
                           context, hidden, positions, layer_embedding_->part(layer_inputs, layer))
                     : run.forward(context, hidden, positions);
      }
      keep_auxiliary(context, layers_.size(), hidden);
    }
    if (stage_.count == 1) break;
    const bool gives_result = stage == stage_.number && stage_.tensor_rank == 0;
    hidden = ops::all_reduce(gives_result ? hidden : ops::scale(hidden, 0), ranks_);
  }
  return hidden;
}

Tensor Decoder::pool(const Tensor& hidden,
                     const Tensor& last_tokens,
                     const Tensor& num_texts) const {
  OpFunction function = OpFunction::mean;
  if (*pooling_ == weights::PoolingType::last) function = OpFunction::last;
  if (*pooling_ == weights::PoolingType::cls) function = OpFunction::cls;
  return ops::pool_rows(hidden, last_tokens, num_texts, function);
}

Tensor Decoder::compute_logits(const Tensor& hidden,
                               const Tensor& logits_indices,
                               const Tensor& num_logits) {
  if (pooling_) {
    const Tensor vectors = pool(hidden, logits_indices, num_logits);
    return classifier_ ? (*classifier_)(vectors) : (*dense_)(vectors);
  }
  Tensor rows = ops::gather_rows(hidden, logits_indices);
  if (projections_.to_lm_head.defined()) rows = project(rows, projections_.to_lm_head);
  Tensor logits = project_to_logits(rows, lm_head_, num_logits);
  if (ranks_ > 1) logits = ops::gather_columns(logits, num_logits, ranks_, vocab_size_);
  if (logits_scale_ != 1) logits = ops::scale(logits, logits_scale_);
  if (logits_soft_cap_ != 0) logits = ops::soft_cap(logits, logits_soft_cap_);
  return logits;
}

}  // namespace reprise::models
