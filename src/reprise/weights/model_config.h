#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/tensor/dtype.h"
#include "reprise/weights/model_directory.h"
#include "reprise/weights/quantization_config.h"
#include "reprise/weights/rope_parameters.h"

namespace reprise::weights {

enum class Architecture : uint8_t { llama, mistral, qwen2, qwen3 };

/// "LlamaForCausalLM".
[[nodiscard]] std::string_view architecture_name(Architecture architecture) noexcept;

/// The tokens that a layer's attention reads; the names are those of `layer_types` in config.json.
enum class LayerType : uint8_t { full_attention, sliding_attention };

/// The content of a model's config.json, checked for range and consistency.
///
/// A value; every choice that the file leaves open is already made. The numbers are bounded (see
/// model_config.cpp) so that the product of any two is below 2^48.
struct ModelConfig {
  Architecture architecture = Architecture::llama;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;  // even
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  RopeParameters rope;

  bool tie_word_embeddings = false;
  bool qkv_bias = false;  // on q_proj, k_proj and v_proj
  bool o_bias = false;    // on o_proj
  bool mlp_bias = false;
  bool qk_norm = false;  // RMSNorm over each head of q and k before the rotation

  /// Tokens a sliding layer sees, its own included: key j counts for query i when i - j < window.
  std::optional<int64_t> sliding_window;
  std::vector<LayerType> layer_types;  // one per layer

  QuantizationConfig quantization;  // of the checkpoint
  std::optional<DType> dtype;       // the type in which the checkpoint's authors run it
  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_ids;

  bool operator==(const ModelConfig&) const = default;

  [[nodiscard]] int64_t q_size() const noexcept { return num_attention_heads * head_dim; }
  [[nodiscard]] int64_t kv_size() const noexcept { return num_key_value_heads * head_dim; }
  /// The window of one layer, or nothing for a layer that sees all tokens.
  [[nodiscard]] std::optional<int64_t> window_of_layer(int64_t layer) const {
    return layer_types[static_cast<size_t>(layer)] == LayerType::sliding_attention ? sliding_window
                                                                                   : std::nullopt;
  }
};

/// A ModelConfig with warnings for people about oddities that did not prevent reading it.
struct LoadedModelConfig {
  ModelConfig config;
  std::vector<std::string> warnings;
};

/// Reads the text of a config.json; `path` only names it in errors. It never runs code of a model:
/// `auto_map` is ignored with a warning.
/// \throws FileError E_CONFIG with the JSON member.
[[nodiscard]] LoadedModelConfig parse_model_config(std::string_view json, std::string_view path);

/// `overrides`: an object, see override_config. \throws FileError E_MISSING, E_PATH, E_TOO_LARGE,
/// E_CONFIG.
[[nodiscard]] LoadedModelConfig load_model_config(const ModelDirectory& directory,
                                                  const Json& overrides = Json::object());

}  // namespace reprise::weights
