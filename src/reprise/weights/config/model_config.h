#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/tensor/dtype.h"
#include "reprise/weights/config/pooling_type.h"
#include "reprise/weights/config/quantization_config.h"
#include "reprise/weights/config/rope_parameters.h"
#include "reprise/weights/files/model_directory.h"

namespace reprise::weights {

/// One enumerator for each row of families/family_list.inl. The rows contain the architectures'
/// names.
enum class Architecture : uint8_t {
#define X(architecture, ...) architecture,
#include "reprise/weights/families/family_list.inl"
#undef X
};

/// All architectures, in the order of the list.
inline constexpr std::array kAllArchitectures = {
#define X(architecture, ...) Architecture::architecture,
#include "reprise/weights/families/family_list.inl"
#undef X
};

/// "LlamaForCausalLM".
[[nodiscard]] std::string_view architecture_name(Architecture architecture) noexcept;
/// The `model_type` of configs that list no architectures, such as "llama".
[[nodiscard]] std::string_view model_type_name(Architecture architecture) noexcept;

/// The tokens that a layer's attention reads; the names are those of `layer_types` in config.json.
/// In a layer of chunked attention a token sees its own chunk of attention_chunk_size positions.
/// A layer of linear attention reads a state of fixed size instead, which earlier tokens left.
/// A layer of the type `none` reads no other token: it has only an MLP or experts.
enum class LayerType : uint8_t {
  full_attention,
  sliding_attention,
  chunked_attention,
  linear_attention,
  none
};

/// gemma_rms_norm multiplies by 1 + weight.
enum class NormType : uint8_t { rms_norm, gemma_rms_norm, layer_norm };

/// The function of an MLP. Configs call gelu_tanh gelu_pytorch_tanh or gelu_new; relu2 is the
/// square of relu.
enum class Activation : uint8_t { silu, gelu, gelu_tanh, relu, relu2 };

/// The norm of q and k: none; over each head, with the same weights for all heads; over each head
/// with weights of its own (LayerNorm without biases); or over all heads at once.
enum class QkNorm : uint8_t { none, per_head, own_per_head, all_heads };

/// How a checkpoint orders the rows of q, k and v.
enum class QkvLayout : uint8_t {
  separate,   // three tensors
  stacked,    // one tensor: all of q, all of k, all of v
  per_head,   // one tensor: q, k and v of head 0, then of head 1, ...
  per_group,  // one tensor: the q heads of key/value head 0, its k, its v, then those of head 1,
              // ...
};

/// How a router's logits become the scores of experts.
enum class RouterScores : uint8_t {
  softmax,
  /// Sigmoids. Each expert has a bias that counts in the choice of experts, but not in their
  /// weights.
  sigmoid_with_bias,
  /// The same with softmax.
  softmax_with_bias,
  /// The sigmoid of an expert's logit multiplies the expert's input, not its result.
  sigmoid_of_input,
};

/// Neighbouring experts.
struct ExpertRange {
  int64_t begin = 0;
  int64_t count = 0;

  bool operator==(const ExpertRange&) const = default;
};

/// Several MLPs of which each token uses some.
struct MixtureOfExperts {
  int64_t num_experts = 0;
  int64_t top_k = 0;              // experts of each token
  int64_t intermediate_size = 0;  // of one expert
  // Size of the expert that every token uses; 0: there is none.
  int64_t shared_intermediate_size = 0;
  bool has_shared_gate = false;  // a gate multiplies the shared expert's result
  /// The weights of a token's experts are scaled so that their sum is one. With softmax_with_bias
  /// the sum is always one, and with sigmoid_of_input every weight is one.
  bool renormalises = false;
  RouterScores scores = RouterScores::softmax;
  int64_t groups = 1;         // of neighbouring experts
  int64_t top_groups = 1;     // number of groups from which a token may choose its experts
  double routed_scale = 1.0;  // of the weights of a token's experts
  /// GPT-OSS: one tensor holds a matrix of all experts, and router and experts have biases.
  bool is_stacked = false;
  bool is_gated = true;  // an expert computes act(gate(x)) * up(x); false: act(up(x))
  // Size of the experts' input and result; 0: the hidden size, without projections.
  int64_t latent_size = 0;
  /// Gemma 4: each layer has an MLP and experts, and the experts read the residual through norms of
  /// their own. The router has a norm too, and multiplies the weight of each expert by a factor of
  /// that expert.
  bool is_beside_mlp = false;
  double swiglu_limit = 0;  // limit of GPT-OSS's gated function; 0: the function is `activation`
  /// A limit for each layer: act(gate) is at most the limit, and up is between -limit and limit. 0:
  /// this layer has no limit. Empty: no layer has one.
  std::vector<double> limits;
  /// The experts of this rank, if ranks divide the experts. Not given: this rank has all experts.
  /// num_experts counts the experts of all ranks.
  std::optional<ExpertRange> of_rank;
  /// The number of engines among which the experts are divided. Each of them computes the rows of
  /// all engines.
  int64_t engines = 1;

  [[nodiscard]] double limit_of_layer(int64_t layer) const {
    return limits.empty() ? 0 : limits[static_cast<size_t>(layer)];
  }
  /// Whether each expert has a bias that counts in the choice of experts.
  [[nodiscard]] bool has_bias_of_choice() const noexcept {
    return scores == RouterScores::sigmoid_with_bias || scores == RouterScores::softmax_with_bias;
  }
  [[nodiscard]] ExpertRange local_experts() const noexcept {
    return of_rank.value_or(ExpertRange{.begin = 0, .count = num_experts});
  }

  bool operator==(const MixtureOfExperts&) const = default;
};

/// The indexer of sparse attention. It has small queries and keys of its own; a token sees only the
/// positions with the highest scores.
struct PositionIndexConfig {
  int64_t num_heads = 0;
  int64_t head_dim = 0;         // more than the part that rotates, qk_rope_head_dim
  int64_t top_k = 0;            // positions that a token sees
  bool is_interleaved = false;  // elements 2i and 2i + 1 rotate against each other

  bool operator==(const PositionIndexConfig&) const = default;
};

/// Multi-head latent attention (MLA): keys and values are made from a latent, and the cache holds
/// the latent. A head of q and k has a part that is made from the latent and a part that rotates.
struct LatentAttentionConfig {
  int64_t q_lora_rank = 0;  // size of the queries' own latent; 0: q is made from the hidden state
  int64_t kv_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;  // even
  int64_t v_head_dim = 0;
  std::optional<PositionIndexConfig> index;  // nothing: a token sees all positions

  bool operator==(const LatentAttentionConfig&) const = default;

  [[nodiscard]] int64_t qk_head_dim() const noexcept { return qk_nope_head_dim + qk_rope_head_dim; }
  /// The size of the latent and the rotated key together; queries are multiplied with both.
  [[nodiscard]] int64_t key_size() const noexcept { return kv_lora_rank + qk_rope_head_dim; }
  /// The number of elements that the cache holds for each position; with an index, also the index
  /// key.
  [[nodiscard]] int64_t cache_row_size() const noexcept {
    return key_size() + (index ? index->head_dim : 0);
  }
};

/// The key/value heads of a layer.
struct KeyValueHeads {
  int64_t count = 0;
  int64_t head_dim = 0;  // even; also of the layer's queries

  bool operator==(const KeyValueHeads&) const = default;
};

/// Llama 4 multiplies the queries of layers without rotation by
/// 1 + scale * log(1 + floor((position + 1) / floor_positions)).
struct AttentionTemperature {
  double scale = 0;
  double floor_positions = 1;

  bool operator==(const AttentionTemperature&) const = default;
};

/// The rule by which a recurrent layer changes its state. short_conv has no recurrence: only a
/// convolution between two gates.
enum class Recurrence : uint8_t { mamba1, mamba2, gated_delta_net, short_conv };

/// Layers of linear attention: a short convolution, then a recurrence. Both keep a state of fixed
/// size for each request, whatever the request's length.
struct RecurrentConfig {
  Recurrence recurrence = Recurrence::mamba2;
  int64_t conv_kernel = 0;  // tokens that the convolution sees
  // Heads, each with a state of its own; mamba1 and short_conv: channels.
  int64_t num_heads = 0;
  int64_t head_dim = 0;  // values per head; mamba1 and short_conv: 1
  // A head's state is [head_dim, state_size]. In a delta net this is the size of keys. 0: only the
  // convolution keeps a state.
  int64_t state_size = 0;
  int64_t num_groups = 0;      // groups of heads that share B and C, or query and key
  int64_t time_step_rank = 0;  // mamba1
  bool conv_bias = false;
  bool proj_bias = false;          // whether the projections into and out of the layer have biases
  bool has_norm = true;            // mamba2: of the result
  bool norms_before_gate = false;  // mamba2: the gate multiplies the result of the norm
  /// In a delta net every num_groups-th head, instead of neighbouring heads, shares query and key.
  bool has_tiled_heads = false;
  /// Kimi's delta attention: each element of a key in a delta net has a time step of its own.
  bool has_key_steps = false;

  bool operator==(const RecurrentConfig&) const = default;

  [[nodiscard]] int64_t value_size() const noexcept { return num_heads * head_dim; }
  [[nodiscard]] int64_t group_size() const noexcept { return num_groups * state_size; }
  /// The number of channels of the convolution: values, and also B and C unless they are made after
  /// it.
  [[nodiscard]] int64_t conv_size() const noexcept {
    return value_size() + (recurrence == Recurrence::mamba1 ? 0 : 2 * group_size());
  }
};

/// Falcon-H1's multipliers for the inputs and the results of the parts of a layer.
struct LayerMultipliers {
  double attention_in = 1;
  double attention_out = 1;
  double mixer_in = 1;
  double mixer_out = 1;
  double mlp_gate = 1;
  double mlp_out = 1;
  // The multipliers of parts of the result of the mixer's first projection.
  double gate = 1;
  double values = 1;
  double b = 1;
  double c = 1;
  double time_steps = 1;

  bool operator==(const LayerMultipliers&) const = default;
};

/// The encoder of a model whose decoder attends to the hidden states of another text. The encoder's
/// layers have the same heads and positions as the decoder's.
struct EncoderConfig {
  int64_t num_layers = 0;
  int64_t intermediate_size = 0;
  /// The first tokens of every answer; they are fixed, so the model does not choose them.
  std::vector<int32_t> decoder_prompt;

  bool operator==(const EncoderConfig&) const = default;
};

/// The content of a model's config.json, checked for range and consistency.
///
/// A value; where the file leaves something open, this struct has the decision. The numbers are
/// bounded (see model_config.cpp) so that the product of any two is below 2^48.
struct ModelConfig {
  Architecture architecture = Architecture::llama;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;  // even; with `mla`, the size of the part that rotates
  /// The heads of layers without a window, if they differ from those of other layers.
  std::optional<KeyValueHeads> full_heads;
  int64_t num_full_attention_heads = 0;  // of queries there; 0: num_attention_heads
  /// The number of last layers that have no keys and values of their own. Each of them reads those
  /// of the last earlier layer of its type.
  int64_t num_kv_shared_layers = 0;
  bool doubles_shared_mlps = false;  // the MLPs of these layers have twice the size
  // In layers without a window, the projection of keys also gives the values.
  bool full_values_are_keys = false;
  bool has_value_norm = false;     // a head of v is divided by its root mean square
  int64_t value_head_dim = 0;      // at most head_dim; 0: it is head_dim
  double value_scale = 1;          // of v
  bool has_layer_scalars = false;  // the result of a layer is multiplied by a number
  // Size of the embedding that each layer has; 0: layers have none.
  int64_t hidden_size_per_layer_input = 0;
  // A layer is one of attention, a recurrence or an MLP, with one norm.
  bool has_single_blocks = false;
  std::optional<LatentAttentionConfig> mla;
  std::optional<RecurrentConfig> recurrent;  // given if some layer is a layer of linear attention
  /// Every layer has attention and a recurrence. Both read the same hidden states.
  bool has_parallel_recurrence = false;
  LayerMultipliers multipliers;
  QkvLayout qkv_layout = QkvLayout::separate;
  bool has_transposed_matrices = false;  // of attention and MLP: stored [in, out]
  int64_t vocab_size = 0;
  /// The size of the embedding and of lm_head, if it is not hidden_size: then projections connect
  /// them with the layers. 0: it is hidden_size.
  int64_t embedding_size = 0;
  int64_t max_position_embeddings = 0;
  NormType norm = NormType::rms_norm;
  bool norm_bias = false;  // of layer_norm
  double norm_eps = 1e-6;
  Activation activation = Activation::silu;
  bool has_mlp = true;
  bool has_gated_mlp = true;           // act(gate(x)) * up(x) instead of act(up(x))
  bool has_parallel_residual = false;  // attention and MLP read the same residual
  bool has_parallel_norms = false;     // a parallel MLP has a norm of its own
  bool has_post_norms = false;         // OPT: norms come after the sums, and there is no final norm
  RopeParameters rope;
  std::optional<RopeParameters> sliding_rope;  // of sliding layers; not given: `rope`
  // For each layer, whether it rotates; empty: all layers do.
  std::vector<bool> rope_layers;
  int64_t learned_position_offset = 0;  // rows before the embedding of position 0
  bool has_learned_positions = false;
  /// Instead of a rotation, the products of queries and keys get biases that grow with the
  /// position.
  bool has_alibi = false;

  bool tie_word_embeddings = false;
  bool qkv_bias = false;  // on q_proj, k_proj and v_proj
  bool o_bias = false;    // on o_proj
  bool mlp_bias = false;
  QkNorm qk_norm = QkNorm::none;
  bool norms_rotated_heads = false;  // q and k are normed after the rotation
  /// In layers that rotate, a head of q and k is divided by its root mean square, without weights.
  bool has_unit_qk_norm = false;
  bool has_attention_sinks = false;   // one more score in the softmax of each head
  bool has_sinks_in_windows = false;  // of layers with a window alone
  // In the projection, each head of q is followed by gates of the head's result.
  bool has_attention_gate = false;
  bool has_head_gates = false;  // a projection gives one gate for the result of each head

  double qkv_clip = 0;  // q, k and v lie between -qkv_clip and qkv_clip; 0: anywhere
  std::optional<double> attention_scale;  // of scores; not given: 1 / sqrt(head_dim)
  // Scores are divided by the number of the layer, counted from 1.
  bool divides_scores_by_layer = false;
  double attention_soft_cap = 0;  // 0: none
  std::optional<AttentionTemperature> attention_temperature;
  /// Ministral 3 multiplies rotated queries by 1 + scale * log(1 + floor(position /
  /// floor_positions)).
  std::optional<AttentionTemperature> query_temperature;
  double embedding_scale = 1;
  double residual_scale = 1;  // of what attention and MLP add
  double logits_scale = 1;
  double logits_soft_cap = 0;  // 0: none

  // Each token sees the whole text, and the model predicts no next tokens.
  bool is_encoder = false;
  // The class of a decoder that gives hidden states and has no lm_head.
  bool is_headless = false;
  // Rows of an embedding of types, of which each token gets the first; 0: none.
  int64_t num_token_types = 0;
  /// The encoder, if this is the config of a decoder that attends to the encoder's hidden states of
  /// a text.
  std::optional<EncoderConfig> encoder;
  /// The model gives vectors for texts instead of next tokens, and needs no lm_head.
  std::optional<PoolingConfig> pooling;
  std::optional<MatryoshkaConfig> matryoshka;  // nothing: the vectors may not be cut
  /// The model gives scores of labels instead of vectors.
  std::optional<ClassifierConfig> classifier;

  /// The number of ranks that share each layer. The numbers of heads and the intermediate size are
  /// those of one rank (rank_weights.h).
  int64_t tensor_parallel_size = 1;
  int64_t tensor_rank = 0;
  /// The number of stages among which the layers are divided, and this rank's stage. A stage has
  /// tensor_parallel_size ranks. Numbers of layers are those of the whole model; a rank has those
  /// from first_layer() to end_layer().
  int64_t pipeline_parallel_size = 1;
  int64_t pipeline_rank = 0;

  std::optional<MixtureOfExperts> moe;
  std::vector<bool> moe_layers;  // one per layer if there is `moe`
  /// Limits of MLPs, and of experts that every token uses; like MixtureOfExperts::limits.
  std::vector<double> mlp_limits;

  /// The number of tokens that a sliding layer sees, including its own: key j counts for query i if
  /// i - j < window.
  std::optional<int64_t> sliding_window;
  std::optional<int64_t> attention_chunk_size;  // of chunked layers
  std::vector<LayerType> layer_types;           // one per layer

  QuantizationConfig quantization;  // of the checkpoint
  std::optional<DType> dtype;       // the type that the checkpoint's authors recommend
  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_ids;

  bool operator==(const ModelConfig&) const = default;

  /// The longest context that the model was made for: vLLM's derived_max_model_len.
  [[nodiscard]] int64_t derived_max_model_len() const;
  [[nodiscard]] int64_t q_size() const noexcept { return num_attention_heads * head_dim; }
  [[nodiscard]] int64_t kv_size() const noexcept { return num_key_value_heads * head_dim; }
  [[nodiscard]] KeyValueHeads heads_of_layer(int64_t layer) const {
    if (full_heads && !window_of_layer(layer)) return *full_heads;
    return {.count = num_key_value_heads, .head_dim = head_dim};
  }
  [[nodiscard]] int64_t query_heads_of_layer(int64_t layer) const {
    const bool is_full = num_full_attention_heads > 0 && !window_of_layer(layer);
    return is_full ? num_full_attention_heads : num_attention_heads;
  }
  /// The number of elements in a head of v.
  [[nodiscard]] int64_t value_dim_of_layer(int64_t layer) const {
    return value_head_dim > 0 ? value_head_dim : heads_of_layer(layer).head_dim;
  }
  [[nodiscard]] bool has_sinks(int64_t layer) const {
    return has_attention_sinks && (!has_sinks_in_windows || window_of_layer(layer).has_value());
  }
  /// Whether the layer reads the keys and values of another layer.
  [[nodiscard]] bool shares_kv(int64_t layer) const noexcept {
    return layer >= num_hidden_layers - num_kv_shared_layers;
  }
  /// The layer whose keys and values this layer reads: its own number, unless it shares them.
  [[nodiscard]] int64_t kv_layer_of(int64_t layer) const;
  [[nodiscard]] bool has_value_projection(int64_t layer) const {
    return !full_values_are_keys || window_of_layer(layer).has_value();
  }
  [[nodiscard]] int64_t intermediate_size_of_layer(int64_t layer) const noexcept {
    return doubles_shared_mlps && shares_kv(layer) ? 2 * intermediate_size : intermediate_size;
  }
  [[nodiscard]] double mlp_limit_of_layer(int64_t layer) const {
    return mlp_limits.empty() ? 0 : mlp_limits[static_cast<size_t>(layer)];
  }
  [[nodiscard]] bool is_moe_layer(int64_t layer) const {
    return moe.has_value() && moe_layers[static_cast<size_t>(layer)];
  }
  [[nodiscard]] bool has_attention(int64_t layer) const {
    return !is_recurrent_layer(layer) && layer_types[static_cast<size_t>(layer)] != LayerType::none;
  }
  /// An MLP or experts.
  [[nodiscard]] bool has_feed_forward(int64_t layer) const {
    return has_mlp &&
           (!has_single_blocks || layer_types[static_cast<size_t>(layer)] == LayerType::none);
  }
  /// Whether the layer has a recurrence and no attention.
  [[nodiscard]] bool is_recurrent_layer(int64_t layer) const {
    return layer_types[static_cast<size_t>(layer)] == LayerType::linear_attention;
  }
  /// A classifier distinguishes two texts by their positions: this number is added to the positions
  /// of the second text. 0: the model does not distinguish texts.
  [[nodiscard]] int64_t second_text_offset() const noexcept {
    // The tokenizers of RoBERTa give every token the first type.
    const bool has_types = architecture == Architecture::bert && num_token_types > 1;
    return classifier.has_value() && has_types ? max_position_embeddings : 0;
  }
  /// Whether a text must be computed in one step: because its first tokens see its last ones, or
  /// because its vector is made from all tokens.
  [[nodiscard]] bool computes_whole_texts() const noexcept {
    return is_encoder || (pooling && pooling->type != PoolingType::last);
  }
  /// Whether the model computes logits of tokens; a score may also compare the logits of two
  /// tokens.
  [[nodiscard]] bool reads_lm_head() const noexcept {
    return classifier ? !classifier->from_tokens.empty() : !pooling.has_value();
  }
  [[nodiscard]] bool has_recurrence(int64_t layer) const {
    return has_parallel_recurrence || is_recurrent_layer(layer);
  }
  /// Layers with a recurrence.
  [[nodiscard]] int64_t num_recurrent_layers() const noexcept;
  /// The number of this rank's layers that cache keys and values, or latents.
  [[nodiscard]] int64_t num_attention_layers() const;
  [[nodiscard]] int64_t first_layer() const noexcept {
    return num_hidden_layers * pipeline_rank / pipeline_parallel_size;
  }
  [[nodiscard]] int64_t end_layer() const noexcept {
    return num_hidden_layers * (pipeline_rank + 1) / pipeline_parallel_size;
  }
  /// The number of ranks of an engine. Each of them computes the logits of a part of the
  /// vocabulary.
  [[nodiscard]] int64_t num_ranks() const noexcept {
    return tensor_parallel_size * pipeline_parallel_size;
  }
  /// The number of layers before this one that are on this rank and use the same cache.
  [[nodiscard]] int64_t cache_index(int64_t layer) const;
  [[nodiscard]] bool rotates(int64_t layer) const {
    return rope.type != RopeType::none &&
           (rope_layers.empty() || rope_layers[static_cast<size_t>(layer)]);
  }
  [[nodiscard]] const RopeParameters& rope_of_layer(int64_t layer) const {
    return sliding_rope && window_of_layer(layer) ? *sliding_rope : rope;
  }
  /// The window of one layer, or nothing for a layer that sees all tokens.
  [[nodiscard]] std::optional<int64_t> window_of_layer(int64_t layer) const {
    return layer_types[static_cast<size_t>(layer)] == LayerType::sliding_attention ? sliding_window
                                                                                   : std::nullopt;
  }
  /// The size of the chunks of one layer, or nothing for a layer that sees all tokens.
  [[nodiscard]] std::optional<int64_t> chunk_of_layer(int64_t layer) const {
    const bool is_chunked = layer_types[static_cast<size_t>(layer)] == LayerType::chunked_attention;
    return is_chunked ? attention_chunk_size : std::nullopt;
  }
};

/// The config of an encoder-decoder model's encoder, as of a model of its own. \pre config.encoder
[[nodiscard]] ModelConfig config_of_encoder(const ModelConfig& config);

/// A ModelConfig, with warnings for people about unusual content that did not prevent reading it.
struct LoadedModelConfig {
  ModelConfig config;
  std::vector<std::string> warnings;
};

/// Reads the text of a config.json; `path` only names the file in errors. Never runs code of a
/// model: `auto_map` is ignored with a warning. `overrides`: an object, see override_model_config;
/// a warning names those without effect. \throws FileError E_CONFIG with the JSON member.
[[nodiscard]] LoadedModelConfig parse_model_config(std::string_view json,
                                                   std::string_view path,
                                                   const Json& overrides = Json::object());

/// \throws FileError E_MISSING, E_PATH, E_TOO_LARGE,
/// E_CONFIG.
[[nodiscard]] LoadedModelConfig load_model_config(const ModelDirectory& directory,
                                                  const Json& overrides = Json::object());

}  // namespace reprise::weights
