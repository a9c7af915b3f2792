#include "reprise/weights/expected_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::weights {
namespace {

class TensorList {
 public:
  void add_norm(std::string name, int64_t size) {
    tensors_.push_back({std::move(name), {size}, WeightRole::norm, Presence::required});
  }

  void add_matrix(std::string name,
                  int64_t num_rows,
                  int64_t num_columns,
                  Presence presence = Presence::required) {
    tensors_.push_back({std::move(name), {num_rows, num_columns}, WeightRole::matrix, presence});
  }

  void add_linear(const std::string& name, int64_t num_out, int64_t num_in, bool has_bias) {
    add_matrix(name + ".weight", num_out, num_in);
    if (has_bias) {
      tensors_.push_back({name + ".bias", {num_out}, WeightRole::bias, Presence::required});
    }
  }

  std::vector<ExpectedTensor> take() && { return std::move(tensors_); }

 private:
  std::vector<ExpectedTensor> tensors_;
};

void add_layer(const ModelConfig& config, int64_t layer, TensorList& list) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  list.add_norm(prefix + "input_layernorm.weight", hidden);
  list.add_linear(attention + "q_proj", config.q_size(), hidden, config.qkv_bias);
  list.add_linear(attention + "k_proj", config.kv_size(), hidden, config.qkv_bias);
  list.add_linear(attention + "v_proj", config.kv_size(), hidden, config.qkv_bias);
  if (config.qk_norm) {
    list.add_norm(attention + "q_norm.weight", config.head_dim);
    list.add_norm(attention + "k_norm.weight", config.head_dim);
  }
  list.add_linear(attention + "o_proj", hidden, config.q_size(), config.o_bias);
  list.add_norm(prefix + "post_attention_layernorm.weight", hidden);
  list.add_linear(mlp + "gate_proj", intermediate, hidden, config.mlp_bias);
  list.add_linear(mlp + "up_proj", intermediate, hidden, config.mlp_bias);
  list.add_linear(mlp + "down_proj", hidden, intermediate, config.mlp_bias);
}

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

// Rotary tables that early exports stored; every engine recomputes them.
bool is_known_leftover(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  TensorList list;
  list.add_matrix("model.embed_tokens.weight", config.vocab_size, config.hidden_size);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    add_layer(config, layer, list);
  }
  list.add_norm("model.norm.weight", config.hidden_size);
  list.add_matrix("lm_head.weight",
                  config.vocab_size,
                  config.hidden_size,
                  config.tie_word_embeddings ? Presence::optional : Presence::required);
  return std::move(list).take();
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
  const std::vector<ExpectedTensor> expected = expected_tensors(config);
  const std::string where = source.description();
  std::set<std::string_view> names;
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
                                  architecture_name(config.architecture),
                                  shape_text(tensor.shape)));
    }
  }
  std::vector<std::string> warnings;
  size_t num_extra = 0;
  constexpr size_t kMaxNamed = 8;  // enough to recognise what they are
  for (const std::string_view name : source.names()) {
    if (names.contains(name) || is_known_leftover(name)) continue;
    if (++num_extra <= kMaxNamed) {
      warnings.push_back(fmt::format("{}: tensor {} is not used", where, visible(name)));
    }
  }
  if (num_extra > kMaxNamed) {
    warnings.push_back(
        fmt::format("{}: {} more tensors are not used", where, num_extra - kMaxNamed));
  }
  return warnings;
}

}  // namespace reprise::weights
