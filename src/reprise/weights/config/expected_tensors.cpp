#include "reprise/weights/config/expected_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/config/decoder_tensors.h"
#include "reprise/weights/config/dense_modules.h"

namespace reprise::weights {
namespace {

// The tensors of one decoder, by the names of its family.
class TensorList {
 public:
  explicit TensorList(const ModelConfig& config) : TensorList(config, decoder_tensors(config)) {}
  TensorList(const ModelConfig& config, const DecoderTensors& names)
      : config_(config), names_(names) {}

  std::vector<ExpectedTensor> make() && {
    const int64_t embedding_size =
        config_.embedding_size > 0 ? config_.embedding_size : config_.hidden_size;
    add_matrix(names_.embedding, config_.vocab_size, embedding_size);
    if (!names_.embedding_projection.empty()) {
      add_matrix(names_.embedding_projection, config_.hidden_size, embedding_size);
    }
    if (config_.has_learned_positions) {
      add_matrix(names_.position_embedding,
                 config_.max_position_embeddings + config_.learned_position_offset,
                 config_.hidden_size);
    }
    if (config_.num_token_types > 0) {
      add_matrix(names_.token_type_embedding, config_.num_token_types, config_.hidden_size);
    }
    if (!names_.embedding_norm.empty()) {
      add_norm_called(std::string(names_.embedding_norm), config_.hidden_size);
    }
    if (const int64_t size = config_.hidden_size_per_layer_input; size > 0) {
      const int64_t of_all = config_.num_hidden_layers * size;
      add_matrix(names_.layer_embedding, config_.vocab_size, of_all);
      add_matrix(names_.layer_embedding_projection, of_all, config_.hidden_size);
      add_norm_called(std::string(names_.layer_embedding_norm), size);
    }
    for (layer_ = config_.first_layer(); layer_ < config_.end_layer(); ++layer_) add_layer();
    if (!names_.final_norm.empty()) {
      add_norm_called(std::string(names_.final_norm), config_.hidden_size);
    }
    if (!names_.hidden_projection.empty()) {
      add_matrix(names_.hidden_projection, embedding_size, config_.hidden_size);
    }
    if (!names_.pooler.empty()) add_pooler();
    if (config_.classifier && config_.classifier->from_tokens.empty()) {
      const int64_t num_labels = config_.classifier->num_labels;
      add_matrix(names_.classifier, num_labels, config_.hidden_size);
      if (names_.classifier_has_bias()) {
        add(std::string(names_.classifier) + ".bias", {num_labels}, WeightRole::bias);
      }
    }
    if (config_.pooling) add_dense(config_.pooling->dense);
    if (!names_.lm_head.empty()) {
      const bool is_needed = !config_.tie_word_embeddings && config_.reads_lm_head();
      add_matrix(names_.lm_head,
                 config_.vocab_size,
                 embedding_size,
                 is_needed ? Presence::required : Presence::optional);
    }
    return std::move(tensors_);
  }

 private:
  // Only classifiers read the pooler; vectors are hidden states.
  void add_pooler() {
    const Presence presence = config_.classifier ? Presence::required : Presence::optional;
    add_matrix(names_.pooler, config_.hidden_size, config_.hidden_size, presence);
    if (!config_.classifier || config_.classifier->pooler_bias) {
      add(std::string(names_.pooler) + ".bias", {config_.hidden_size}, WeightRole::bias, presence);
    }
    if (!names_.pooler_norm.empty()) {
      add_norm_called(std::string(names_.pooler_norm), config_.hidden_size);
    }
  }
  void add_dense(const std::vector<DenseModule>& modules) {
    for (size_t i = 0; i < modules.size(); ++i) {
      const int64_t num_out = modules[i].out_features;
      add(dense_tensor_name(i, "weight"), {num_out, modules[i].in_features}, WeightRole::matrix);
      if (modules[i].has_bias) add(dense_tensor_name(i, "bias"), {num_out}, WeightRole::bias);
    }
  }
  void add(std::string name,
           std::vector<int64_t> shape,
           WeightRole role,
           Presence presence = Presence::required) {
    tensors_.push_back({std::move(name), std::move(shape), role, presence});
  }
  void add_matrix(std::string_view name,
                  int64_t num_rows,
                  int64_t num_columns,
                  Presence presence = Presence::required) {
    add(std::string(name) + ".weight", {num_rows, num_columns}, WeightRole::matrix, presence);
  }
  void add_norm_called(const std::string& name, int64_t size) {
    add(name + ".weight", {size}, WeightRole::norm);
    if (config_.norm_bias) add(name + ".bias", {size}, WeightRole::bias);
  }
  // A norm of the layer, if the family has it.
  void add_norm(std::string_view name, int64_t size) {
    if (!name.empty()) add_norm_called(names_.in_layer(layer_, name), size);
  }
  void add_linear(std::string_view name, int64_t num_out, int64_t num_in, bool has_bias) {
    const std::string module = names_.in_layer(layer_, name);
    std::vector<int64_t> shape = {num_out, num_in};
    if (names_.is_transposed) std::swap(shape[0], shape[1]);
    add(module + ".weight", std::move(shape), WeightRole::matrix);
    if (has_bias) add(module + ".bias", {num_out}, WeightRole::bias);
  }

  void add_layer() {
    const int64_t hidden = config_.hidden_size;
    if (names_.has_attention_norm(layer_)) add_norm(names_.attention_norm, hidden);
    if (config_.has_recurrence(layer_)) add_mixer(*config_.recurrent);
    if (config_.has_attention(layer_)) {
      config_.mla ? add_latent_attention(*config_.mla) : add_attention();
    }
    add_norm(names_.attention_result_norm, hidden);
    if (!names_.cross_q.empty()) add_cross_attention();
    if (!config_.has_feed_forward(layer_)) return;
    // No norm is stored in two cases: a parallel MLP without a norm of its own reads the result of
    // the norm before attention, and a layer of one block has only one norm.
    const bool has_norm = !config_.has_parallel_residual || config_.has_parallel_norms;
    if (has_norm && !config_.has_single_blocks) add_norm(names_.mlp_norm, hidden);
    const bool has_experts = config_.is_moe_layer(layer_);
    if (has_experts) add_experts();
    if (!has_experts || config_.moe->is_beside_mlp) add_mlp();
    add_norm(names_.mlp_result_norm, hidden);
    if (const int64_t size = config_.hidden_size_per_layer_input; size > 0) {
      add_linear(names_.layer_input_gate, size, hidden, false);
      add_linear(names_.layer_input_projection, hidden, size, false);
      add_norm(names_.layer_input_norm, hidden);
    }
    if (config_.has_layer_scalars) {
      add(names_.in_layer(layer_, names_.layer_scalar), {1}, WeightRole::norm);
    }
  }

  void add_attention() {
    const int64_t hidden = config_.hidden_size;
    const KeyValueHeads heads = config_.heads_of_layer(layer_);
    const int64_t query_heads = config_.query_heads_of_layer(layer_);
    const int64_t q = query_heads * heads.head_dim;
    const int64_t kv = heads.count * heads.head_dim;
    const int64_t value_dim = config_.value_dim_of_layer(layer_);
    const bool has_keys = !config_.shares_kv(layer_);
    if (names_.qkv.empty()) {
      add_linear(names_.q, config_.has_attention_gate ? 2 * q : q, hidden, config_.qkv_bias);
      if (has_keys) add_linear(names_.k, kv, hidden, config_.qkv_bias);
      const bool has_values = has_keys && config_.has_value_projection(layer_);
      if (has_values) add_linear(names_.v, heads.count * value_dim, hidden, config_.qkv_bias);
    } else {
      add_linear(names_.qkv, q + 2 * kv, hidden, config_.qkv_bias);
    }
    if (config_.qk_norm == QkNorm::own_per_head) {
      add_head_norms(names_.q_norm, config_.num_attention_heads);
      add_head_norms(names_.k_norm, config_.num_key_value_heads);
    } else if (config_.qk_norm != QkNorm::none) {
      const bool is_per_head = config_.qk_norm == QkNorm::per_head;
      add_norm(names_.q_norm, is_per_head ? heads.head_dim : q);
      if (has_keys) add_norm(names_.k_norm, is_per_head ? heads.head_dim : kv);
    }
    // For layers that read another layer's keys and values, published checkpoints still have
    // weights of keys and values.
    if (!has_keys) {
      for (const std::string_view name : {names_.k, names_.v}) {
        add_matrix(names_.in_layer(layer_, name), kv, hidden, Presence::optional);
      }
      add(names_.in_layer(layer_, names_.k_norm) + ".weight",
          {heads.head_dim},
          WeightRole::norm,
          Presence::optional);
    }
    add_linear(names_.o, hidden, query_heads * value_dim, config_.o_bias);
    if (config_.has_sinks(layer_)) {
      add(names_.in_layer(layer_, names_.sinks), {query_heads}, WeightRole::bias);
    }
    if (config_.has_head_gates) add_linear(names_.head_gates, query_heads, hidden, false);
  }

  // The weights of each head's norm, which has no bias.
  void add_head_norms(std::string_view name, int64_t num_heads) {
    if (!names_.has_norm_of_each_head) {
      add(names_.in_layer(layer_, name) + ".weight",
          {num_heads, config_.head_dim},
          WeightRole::norm);
      return;
    }
    for (int64_t head = 0; head < num_heads; ++head) {
      add(names_.in_layer(layer_, fmt::format("{}{}.weight", name, head)),
          {config_.head_dim},
          WeightRole::norm);
    }
  }

  void add_cross_attention() {
    for (const std::string_view name : {names_.cross_q, names_.cross_k, names_.cross_v}) {
      add_linear(name, config_.q_size(), config_.hidden_size, config_.qkv_bias);
    }
    add_linear(names_.cross_o, config_.hidden_size, config_.q_size(), config_.o_bias);
    add_norm(names_.cross_result_norm, config_.hidden_size);
  }

  void add_mixer(const RecurrentConfig& mixer) {
    const auto name = [&](std::string_view part) { return names_.in_mixer(layer_, part); };
    const auto linear = [&](std::string_view part, int64_t num_out, int64_t num_in, bool has_bias) {
      add_matrix(name(part), num_out, num_in);
      if (has_bias) add(name(part) + ".bias", {num_out}, WeightRole::bias);
    };
    const int64_t hidden = config_.hidden_size;
    if (mixer.has_key_steps) return add_kimi_mixer(mixer);
    const int64_t values = mixer.value_size();
    const int64_t conv = mixer.conv_size();
    const std::string convolution = name(names_.mixer_conv);
    add(convolution + ".weight", {conv, 1, mixer.conv_kernel}, WeightRole::matrix);
    if (mixer.conv_bias) add(convolution + ".bias", {conv}, WeightRole::bias);
    linear(names_.mixer_out, hidden, values, mixer.proj_bias);
    if (mixer.recurrence == Recurrence::short_conv) {
      linear(names_.mixer_in, 3 * conv, hidden, mixer.proj_bias);
      return;
    }
    if (mixer.recurrence == Recurrence::mamba1) {
      linear(names_.mixer_in, 2 * values, hidden, mixer.proj_bias);
      linear("x_proj", mixer.time_step_rank + 2 * mixer.state_size, values, false);
      linear("dt_proj", values, mixer.time_step_rank, true);
      add(name("A_log"), {values, mixer.state_size}, WeightRole::matrix);
      add(name("D"), {values}, WeightRole::bias);
      return;
    }
    add(name("A_log"), {mixer.num_heads}, WeightRole::bias);
    add(name("dt_bias"), {mixer.num_heads}, WeightRole::bias);
    if (mixer.recurrence == Recurrence::gated_delta_net) {
      const bool is_separate = !names_.mixer_z.empty();
      linear(names_.mixer_in, is_separate ? conv : conv + values, hidden, false);
      if (is_separate) {
        linear(names_.mixer_z, values, hidden, false);
        linear(names_.mixer_beta, mixer.num_heads, hidden, false);
        linear(names_.mixer_dt, mixer.num_heads, hidden, false);
      } else {
        linear(names_.mixer_gates, 2 * mixer.num_heads, hidden, false);
      }
      add(name("norm.weight"), {mixer.head_dim}, WeightRole::norm);
      return;
    }
    linear(names_.mixer_in, values + conv + mixer.num_heads, hidden, mixer.proj_bias);
    add(name("D"), {mixer.num_heads}, WeightRole::bias);
    if (mixer.has_norm) add(name("norm.weight"), {values}, WeightRole::norm);
  }

  void add_kimi_mixer(const RecurrentConfig& mixer) {
    const auto name = [&](std::string_view part) { return names_.in_mixer(layer_, part); };
    const int64_t hidden = config_.hidden_size;
    const int64_t size = mixer.value_size();
    for (const std::string_view part : {"q", "k", "v"}) {
      add_matrix(name(fmt::format("{}_proj", part)), size, hidden);
      add(name(fmt::format("{}_conv1d.weight", part)),
          {size, 1, mixer.conv_kernel},
          WeightRole::matrix);
    }
    for (const std::string_view part : {"f", "g"}) {
      add_matrix(name(fmt::format("{}_a_proj", part)), mixer.head_dim, hidden);
      add_matrix(name(fmt::format("{}_b_proj", part)), size, mixer.head_dim);
    }
    add_matrix(name("b_proj"), mixer.num_heads, hidden);
    add(name("A_log"), {1, 1, mixer.num_heads, 1}, WeightRole::bias);
    add(name("dt_bias"), {size}, WeightRole::bias);
    add(name("o_norm.weight"), {mixer.head_dim}, WeightRole::norm);
    add_matrix(name("o_proj"), hidden, size);
  }

  void add_latent_attention(const LatentAttentionConfig& mla) {
    const int64_t heads = config_.num_attention_heads;
    const int64_t hidden = config_.hidden_size;
    if (mla.q_lora_rank == 0) {
      add_linear(names_.q, heads * mla.qk_head_dim(), hidden, false);
    } else {
      add_linear(names_.q_a, mla.q_lora_rank, hidden, false);
      add_norm(names_.q_a_norm, mla.q_lora_rank);
      add_linear(names_.q_b, heads * mla.qk_head_dim(), mla.q_lora_rank, false);
    }
    add_linear(names_.kv_a, mla.key_size(), hidden, false);
    add_norm(names_.kv_a_norm, mla.kv_lora_rank);
    add_linear(
        names_.kv_b, heads * (mla.qk_nope_head_dim + mla.v_head_dim), mla.kv_lora_rank, false);
    add_linear(names_.o, hidden, heads * mla.v_head_dim, false);
    if (!mla.index) return;
    const PositionIndexConfig& index = *mla.index;
    add_linear(names_.index_q_b, index.num_heads * index.head_dim, mla.q_lora_rank, false);
    add_linear(names_.index_k, index.head_dim, hidden, false);
    add_linear(names_.index_weights, index.num_heads, hidden, false);
    const std::string norm = names_.in_layer(layer_, names_.index_k_norm);
    add(norm + ".weight", {index.head_dim}, WeightRole::norm);
    add(norm + ".bias", {index.head_dim}, WeightRole::bias);
  }

  void add_mlp() {
    const int64_t hidden = config_.hidden_size;
    const int64_t intermediate = config_.intermediate_size_of_layer(layer_);
    if (!names_.gate_up.empty()) {
      add_linear(names_.gate_up, 2 * intermediate, hidden, config_.mlp_bias);
    } else {
      if (config_.has_gated_mlp) add_linear(names_.gate, intermediate, hidden, config_.mlp_bias);
      add_linear(names_.up, intermediate, hidden, config_.mlp_bias);
    }
    add_linear(names_.down, hidden, intermediate, config_.mlp_bias);
  }

  void add_experts() {
    const MixtureOfExperts& moe = *config_.moe;
    const int64_t hidden = config_.hidden_size;
    add_linear(names_.router, moe.num_experts, hidden, moe.is_stacked);
    if (moe.is_stacked) return add_stacked_experts(moe);
    if (moe.has_bias_of_choice()) {
      std::vector<int64_t> shape = {moe.num_experts};
      if (names_.router_bias_is_row) shape.insert(shape.begin(), 1);
      add(names_.in_layer(layer_, names_.router_bias), std::move(shape), WeightRole::bias);
    }
    if (moe.is_beside_mlp) add_parts_beside_mlp(moe);
    if (moe.latent_size > 0) {
      add_linear(names_.latent_in, moe.latent_size, hidden, config_.mlp_bias);
      add_linear(names_.latent_out, hidden, moe.latent_size, config_.mlp_bias);
    }
    const ExpertRange experts = moe.local_experts();
    for (int64_t expert = experts.begin; expert < experts.begin + experts.count; ++expert) {
      add_expert(fmt::format("{}{}.", names_.experts, expert),
                 moe.intermediate_size,
                 moe.latent_size > 0 ? moe.latent_size : hidden,
                 {names_.expert_gate, names_.expert_up, names_.expert_down});
    }
    if (moe.shared_intermediate_size == 0) return;
    add_shared_expert(moe.shared_intermediate_size);
    if (moe.has_shared_gate) add_linear(names_.shared_expert_gate, 1, hidden, false);
  }
  void add_parts_beside_mlp(const MixtureOfExperts& moe) {
    const auto name = [&](std::string_view tensor) { return names_.in_layer(layer_, tensor); };
    add(name(names_.router_scale), {config_.hidden_size}, WeightRole::norm);
    add(name(names_.expert_scales), {moe.num_experts}, WeightRole::norm);
    add_norm(names_.expert_norm, config_.hidden_size);
    add_norm(names_.plain_mlp_result_norm, config_.hidden_size);
    add_norm(names_.expert_result_norm, config_.hidden_size);
  }
  // One tensor for all experts of a layer, the form that ExpertMatrices reads.
  void add_stacked_experts(const MixtureOfExperts& moe) {
    const int64_t num_experts = moe.local_experts().count;
    const auto add_matrices = [&](std::string_view part, int64_t rows, int64_t columns) {
      const std::string name = names_.in_layer(layer_, names_.experts) + std::string(part);
      add(name, {num_experts, rows, columns}, WeightRole::matrix);
      add(name + "_bias", {num_experts, rows}, WeightRole::bias);
    };
    add_matrices(names_.expert_gate_up, 2 * moe.intermediate_size, config_.hidden_size);
    add_matrices(names_.expert_down, config_.hidden_size, moe.intermediate_size);
  }
  void add_shared_expert(int64_t size) {
    const DecoderTensors::ExpertModules modules = names_.shared_modules();
    if (names_.shared_gate_up.empty()) {
      return add_expert(names_.shared_expert, size, config_.hidden_size, modules);
    }
    const auto name = [&](std::string_view part) {
      return fmt::format("{}{}", names_.shared_expert, part);
    };
    add_linear(name(names_.shared_gate_up), 2 * size, config_.hidden_size, false);
    add_linear(name(modules.down), config_.hidden_size, size, false);
  }
  void add_expert(std::string_view prefix,
                  int64_t size,
                  int64_t hidden,
                  const DecoderTensors::ExpertModules& modules) {
    const auto name = [&](std::string_view part) { return fmt::format("{}{}", prefix, part); };
    if (config_.moe->is_gated) add_linear(name(modules.gate), size, hidden, false);
    add_linear(name(modules.up), size, hidden, false);
    add_linear(name(modules.down), hidden, size, false);
  }

  const ModelConfig& config_;
  const DecoderTensors names_;
  int64_t layer_ = 0;
  std::vector<ExpectedTensor> tensors_;
};

void check_tensor(const ExpectedTensor& expected,
                  const TensorSpec& found,
                  const std::string& source) {
  if (found.shape != expected.shape) {
    throw FileError("E_SHAPE_MISMATCH",
                    source,
                    expected.name,
                    fmt::format("has shape {}, config.json asks for {}",
                                shape_text(found.shape),
                                shape_text(expected.shape)));
  }
  if (found.dtype != DType::f32 && found.dtype != DType::bf16 && found.dtype != DType::f16) {
    throw FileError("E_DTYPE",
                    source,
                    expected.name,
                    fmt::format("is {}, a weight must be float32, bfloat16 or float16",
                                dtype_name(found.dtype)));
  }
}

// Tensors that no engine needs to read, so they deserve no warning.
bool is_known_leftover(std::string_view name) {
  constexpr auto kEndings = std::to_array<std::string_view>({
      // Tables that early exports stored, although they follow from the config: rotary frequencies,
      // positions and causal masks.
      ".rotary_emb.inv_freq",
      ".position_ids",
      ".attn.bias",
      ".attn.masked_bias",
      ".attention.bias",
      ".attention.masked_bias",
      // Scales of activations. int8 projections read them if config.json says so. Other activations
      // are quantised with scales of their own, or not at all.
      ".input_scale",
      ".q_scale",
      // Scales of a float8 KV cache. They are read if the cache is float8.
      ".k_scale",
      ".v_scale",
      ".kv_scale",
      // The memory layout of an LLM.int8() matrix, which only its own kernels need.
      ".weight_format",
  });
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) {
    return name.ends_with(ending);
  });
}

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  std::vector<ExpectedTensor> tensors = TensorList(config).make();
  if (!config.encoder) return tensors;
  const ModelConfig encoder = config_of_encoder(config);
  std::vector<ExpectedTensor> more = TensorList(encoder, encoder_tensors(config)).make();
  // The first one is the embedding, which both parts share.
  tensors.insert(
      tensors.end(), std::move_iterator(more.begin() + 1), std::move_iterator(more.end()));
  const auto optional_matrix = [&](std::string name, int64_t rows) {
    tensors.push_back(
        {std::move(name), {rows, config.hidden_size}, WeightRole::matrix, Presence::optional});
  };
  // Early checkpoints store the shared embedding once more for each part.
  optional_matrix("model.encoder.embed_tokens.weight", config.vocab_size);
  optional_matrix("model.decoder.embed_tokens.weight", config.vocab_size);
  tensors.push_back({std::string(kFinalLogitsBias),
                     {1, config.vocab_size},
                     WeightRole::bias,
                     Presence::optional});
  return tensors;
}

int64_t num_parameters(const ModelConfig& config) {
  int64_t total = 0;
  for (const ExpectedTensor& tensor : expected_tensors(config)) {
    if (tensor.presence == Presence::optional) continue;
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) count *= extent;
    total += count;
  }
  return total;
}

std::vector<std::string> verify_weights(const ModelConfig& config, const WeightSource& source) {
  return verify_tensors(expected_tensors(config), architecture_name(config.architecture), source);
}

std::vector<std::string> verify_tensors(const std::vector<ExpectedTensor>& expected,
                                        std::string_view model,
                                        const WeightSource& source,
                                        std::string_view read_elsewhere) {
  const std::string where = source.description();
  std::set<std::string_view> names = {read_elsewhere};
  for (const ExpectedTensor& tensor : expected) {
    names.insert(tensor.name);
    const TensorSpec* found = source.find(tensor.name);
    if (found != nullptr) {
      check_tensor(tensor, *found, where);
    } else if (tensor.presence == Presence::required) {
      throw FileError("E_MISSING",
                      where,
                      tensor.name,
                      fmt::format("{} needs this tensor of shape {}, the checkpoint has none",
                                  model,
                                  shape_text(tensor.shape)));
    }
  }
  std::vector<std::string> extra;
  for (const std::string_view name : source.names()) {
    if (!names.contains(name) && !is_known_leftover(name)) extra.push_back(visible(name));
  }
  if (extra.empty()) return {};
  constexpr size_t kMaxNamed = 8;  // enough to recognise what they are
  const size_t num_extra = extra.size();
  const size_t num_named = std::min(num_extra, kMaxNamed);
  extra.resize(num_named);
  const std::string rest =
      num_extra == num_named ? "" : fmt::format(" and {} more", num_extra - num_named);
  return {fmt::format("{}: {} tensor{} of the checkpoint {} not used: {}{}",
                      where,
                      num_extra,
                      num_extra == 1 ? "" : "s",
                      num_extra == 1 ? "is" : "are",
                      fmt::join(extra, ", "),
                      rest)};
}

}  // namespace reprise::weights
