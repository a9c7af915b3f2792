#include "reprise/weights/gguf/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/gguf/architecture_keys.h"
#include "reprise/weights/gguf/gguf_architectures.h"
#include "reprise/weights/gguf/gguf_experts.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights::gguf {
namespace {

void refuse_unsupported(const ArchitectureKeys& keys, const GgufArchitecture& architecture) {
  for (const std::string_view name : {"attention.clamp_kqv", "logit_scale"}) {
    if (architecture.reads_logit_scale && name == "logit_scale") continue;
    if (keys.number(name).value_or(0) != 0) keys.fail(name, "is not supported");
  }
  if (keys.boolean("attention.causal").value_or(!architecture.is_encoder) ==
      architecture.is_encoder) {
    keys.fail("attention.causal",
              fmt::format("only {} is supported in this architecture", !architecture.is_encoder));
  }
  constexpr std::string_view kRotation = "rope.freq_base";
  if (architecture.is_encoder && keys.has(kRotation)) {
    keys.fail(kRotation, "rotated positions are not supported in this architecture");
  }
}

// The rotated elements of each head are its first ones.
void write_partial_rotation(const ArchitectureKeys& keys, int64_t head_dim, Json& config) {
  const int64_t rotated = keys.integer("rope.dimension_count").value_or(head_dim);
  if (rotated > head_dim) {
    keys.fail("rope.dimension_count",
              fmt::format("is {}, more than the {} elements of a head", rotated, head_dim));
  }
  // The reader rounds the product of factor and size down; half an element more keeps it above.
  config["partial_rotary_factor"] =
      rotated == head_dim ? 1.0
                          : (static_cast<double>(rotated) + 0.5) / static_cast<double>(head_dim);
}

int64_t read_kv_heads(const ArchitectureKeys& keys,
                      const GgufArchitecture& architecture,
                      int64_t num_heads) {
  constexpr std::string_view kKey = "attention.head_count_kv";
  if (!keys.has(kKey)) return num_heads;
  const std::vector<int64_t> counts = keys.integers(kKey, keys.required("block_count"));
  const int64_t most = *std::ranges::max_element(counts);
  for (const int64_t count : counts) {
    if (count == most || (count == 0 && architecture.has_recurrent_layers)) continue;
    keys.fail(kKey, fmt::format("differs between layers: {} and {}", count, most));
  }
  return most == 0 ? num_heads : most;  // no layer has attention
}

void read_heads(const ArchitectureKeys& keys, const GgufArchitecture& architecture, Json& config) {
  const int64_t hidden_size = keys.required("embedding_length");
  const int64_t num_heads = keys.required("attention.head_count");
  config["num_attention_heads"] = num_heads;
  config["num_key_value_heads"] = read_kv_heads(keys, architecture, num_heads);
  const int64_t head_dim = keys.integer("attention.key_length").value_or(hidden_size / num_heads);
  for (const std::string_view name : {"attention.value_length", "rope.dimension_count"}) {
    if (name == "rope.dimension_count" && architecture.rotates_part) continue;
    if (const int64_t other = keys.integer(name).value_or(head_dim); other != head_dim) {
      keys.fail(name,
                fmt::format("is {}, only that of the keys, {}, is supported", other, head_dim));
    }
  }
  config["head_dim"] = head_dim;
  if (architecture.rotates_part) write_partial_rotation(keys, head_dim, config);
}

// The part of YaRN that llama.cpp and Transformers compute in the same way. Both multiply by 0.1
// ln(factor) + 1 if the file has no attn_factor.
Json yarn_scaling(const ArchitectureKeys& keys, double factor) {
  Json scaling = {{"rope_type", "yarn"}, {"factor", factor}};
  constexpr std::string_view kOriginal = "rope.scaling.original_context_length";
  if (const auto original = keys.integer(kOriginal); original.value_or(0) != 0) {
    scaling["original_max_position_embeddings"] = *original;
  }
  if (const auto fast = keys.number("rope.scaling.yarn_beta_fast")) scaling["beta_fast"] = *fast;
  if (const auto slow = keys.number("rope.scaling.yarn_beta_slow")) scaling["beta_slow"] = *slow;
  if (const auto attention = keys.number("rope.scaling.attn_factor")) {
    scaling["attention_factor"] = *attention * (1 + 0.1 * std::log(std::max(factor, 1.0)));
  }
  return scaling;
}

void read_rope(const ArchitectureKeys& keys, const GgufArchitecture& architecture, Json& config) {
  config["rope_theta"] = keys.number("rope.freq_base").value_or(10000.0);
  const std::string* type = keys.string("rope.scaling.type");
  const std::string name = type == nullptr ? "linear" : *type;
  const bool is_known = name == "none" || name == "linear" || name == "yarn" ||
                        (name == "longrope" && architecture.reads_longrope);
  if (!is_known) {
    keys.fail("rope.scaling.type",
              fmt::format("'{}' is not supported; supported: none, linear, yarn", visible(name)));
  }
  double factor = keys.number("rope.scale_linear").value_or(1.0);  // of files before 2024
  if (type != nullptr) factor = keys.number("rope.scaling.factor").value_or(factor);
  if (name == "yarn") {
    config["rope_scaling"] = yarn_scaling(keys, factor);
  } else if (name == "linear" && factor != 1.0) {
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", factor}};
  }
}

// The factors of longrope are in tensors. The engine computes the attention factor, as Transformers
// does.
void read_longrope(const ArchitectureKeys& keys,
                   const GgufArchitecture& architecture,
                   const GgufConfigTraits& traits,
                   Json& config) {
  if (traits.short_factors.empty() && traits.long_factors.empty()) return;
  constexpr std::string_view kOriginal = "rope.scaling.original_context_length";
  const auto original = keys.integer(kOriginal);
  if (!original) keys.fail(kOriginal, "is required: the file has rope_factors");
  if (!architecture.reads_longrope) {
    keys.fail(kOriginal, "longrope is supported for phi3 alone");
  }
  config["original_max_position_embeddings"] = *original;
  config["rope_scaling"] = {{"rope_type", "longrope"},
                            {"short_factor", traits.short_factors},
                            {"long_factor", traits.long_factors}};
}

void copy_members(const ArchitectureKeys& keys,
                  const GgufArchitecture& architecture,
                  Json& config) {
  using enum CopiedMember::Type;
  for (const CopiedMember& copied : architecture.members) {
    const std::string member(copied.member);
    if (copied.type == integer) {
      if (const auto value = keys.integer(copied.key); value.value_or(0) != 0) {
        config[member] = *value;
      }
    } else if (copied.type == number) {
      if (const auto value = keys.number(copied.key)) config[member] = *value;
    } else if (const auto value = keys.boolean(copied.key)) {
      config[member] = *value;
    }
  }
}

// Reads which layers have the window: a list has an entry for each layer, or every n-th layer has
// no window.
void read_window_layers(const ArchitectureKeys& keys, Json& config) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  if (!config.contains("sliding_window") || !keys.has(kKey)) return;
  if (!keys.is_array(kKey)) {
    config["sliding_window_pattern"] = keys.required(kKey);
    return;
  }
  config["layer_types"] = Json::array();
  for (const int64_t has_window : keys.integers(kKey, keys.required("block_count"))) {
    config["layer_types"].push_back(has_window != 0 ? "sliding_attention" : "full_attention");
  }
}

// Adds the same members under the names that configs of other families use.
void add_other_names(Json& config) {
  constexpr auto kOtherNames = std::to_array<std::pair<std::string_view, std::string_view>>({
      {"attention_bias", "bias"},
      {"attention_bias", "qkv_bias"},
      {"attention_bias", "use_bias"},
      {"attention_bias", "use_qkv_bias"},
      {"hidden_size", "n_embd"},
      {"intermediate_size", "ffn_hidden_size"},
      {"intermediate_size", "n_inner"},
      {"max_position_embeddings", "model_max_length"},
      {"max_position_embeddings", "n_positions"},
      {"num_attention_heads", "n_head"},
      {"num_experts_per_tok", "num_experts_per_token"},
      {"num_hidden_layers", "n_layer"},
      {"num_key_value_heads", "num_kv_heads"},
      {"rms_norm_eps", "layer_norm_eps"},
      {"rms_norm_eps", "layer_norm_epsilon"},
      {"rms_norm_eps", "norm_eps"},
      {"rms_norm_eps", "norm_epsilon"},
  });
  for (const auto& [member, other] : kOtherNames) {
    if (config.contains(std::string(member)))
      config[std::string(other)] = config[std::string(member)];
  }
}

std::vector<int64_t> end_token_ids(const Metadata& metadata) {
  std::vector<int64_t> ids;
  const std::vector<std::string>* tokens = metadata.strings("tokenizer.ggml.tokens");
  const auto add = [&](int64_t id) {
    if (tokens != nullptr && std::cmp_greater_equal(id, tokens->size())) return;
    if (std::find(ids.begin(), ids.end(), id) == ids.end() && ids.size() < kMaxEosTokens) {
      ids.push_back(id);
    }
  };
  for (const std::string_view name : {"eos", "eot", "eom"}) {
    const auto id = metadata.integer(
        fmt::format("tokenizer.ggml.{}_token_id", name), 0, std::numeric_limits<uint32_t>::max());
    if (id) add(*id);
  }
  // Files rarely name more than one end token. Further end tokens are recognised by their text, as
  // in llama.cpp.
  constexpr std::array<std::string_view, 4> kEndTokens = {
      "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>"};
  if (tokens == nullptr) return ids;
  for (size_t id = 0; id < tokens->size(); ++id) {
    const std::string& token = (*tokens)[id];
    if (token.starts_with("<|") &&
        std::find(kEndTokens.begin(), kEndTokens.end(), token) != kEndTokens.end()) {
      add(static_cast<int64_t>(id));
    }
  }
  return ids;
}

}  // namespace

Json config_json(const Metadata& metadata, const GgufConfigTraits& traits) {
  const ArchitectureKeys keys(metadata);
  const GgufArchitecture& architecture = find_architecture(keys, metadata);
  refuse_unsupported(keys, architecture);
  if (traits.vocab_size == 0) {
    throw FileError("E_MISSING",
                    metadata.path(),
                    "token_embd.weight",
                    "the file has no such tensor; is it a vocabulary or an adapter only?");
  }
  Json config;
  config["architectures"] = Json::array({std::string(architecture.model_class)});
  config["vocab_size"] = traits.vocab_size;
  config["hidden_size"] = keys.required("embedding_length");
  config["num_hidden_layers"] = keys.num_layers();
  config["max_position_embeddings"] = keys.required("context_length");
  const std::string_view epsilon_key = architecture.has_layer_norm
                                           ? "attention.layer_norm_epsilon"
                                           : "attention.layer_norm_rms_epsilon";
  const std::optional<double> epsilon = keys.number(epsilon_key);
  if (!epsilon) keys.fail(epsilon_key, "is required: a number");
  config["rms_norm_eps"] = *epsilon;
  config["tie_word_embeddings"] = !traits.has("output.weight");
  config["attention_bias"] = traits.has("attn_q.bias") || traits.has("attn_qkv.bias");
  config["attention_out_bias"] = traits.has("attn_output.bias");  // read for Seed-OSS alone
  config["mlp_bias"] = traits.has("ffn_up.bias");
  if (architecture.has_attention) {
    // Without this key, all layers have experts.
    constexpr std::string_view kSize = "feed_forward_length";
    if (!architecture.has_experts || keys.has(kSize)) {
      config["intermediate_size"] = keys.required(kSize);
    }
    const bool has_plain_heads =
        !architecture.has_latent_attention && !architecture.has_heads_by_window;
    if (has_plain_heads) read_heads(keys, architecture, config);
    if (!architecture.is_encoder) read_rope(keys, architecture, config);
    read_longrope(keys, architecture, traits, config);
  }
  if (architecture.has_experts) read_experts(keys, architecture.model_class, config);
  add_other_names(config);
  copy_members(keys, architecture, config);
  read_window_layers(keys, config);
  if (architecture.read != nullptr) architecture.read(keys, traits, config);
  config["eos_token_id"] = end_token_ids(metadata);
  return config;
}

std::vector<std::string> config_warnings(const Metadata& metadata, const Json& overrides) {
  const ArchitectureKeys keys(metadata);
  std::vector<std::string> warnings;
  const int64_t end = keys.required("block_count");
  if (const int64_t first = keys.num_layers(); first < end) {
    warnings.push_back(
        fmt::format("{}: {} of {} layers predict tokens further ahead (MTP) and are not read",
                    metadata.path(),
                    end - first,
                    end));
  }
  const auto tell = [&](std::string_view key, std::string_view what) {
    warnings.push_back(
        fmt::format("{}: {}.{} is absent, {}", metadata.path(), keys.architecture(), key, what));
  };
  constexpr std::string_view kValueScale = "attention.value_scale";
  if (keys.is_of("mimo2") && !keys.has(kValueScale) &&
      !overrides.contains("attention_value_scale")) {
    tell(kValueScale,
         "so values are not scaled, as in llama.cpp; MiMo-V2-Flash has attention_value_scale 0.707 "
         "(--hf-overrides)");
  }
  constexpr std::string_view kTemperature = "attention.temperature_scale";
  if (keys.is_of("mistral4") && !keys.has(kTemperature) && !overrides.contains("rope_scaling")) {
    tell(kTemperature,
         "so queries do not grow with the position, as in llama.cpp; Mistral Small 4 has "
         "rope_scaling.llama_4_scaling_beta 0.1 (--hf-overrides)");
  }
  return warnings;
}

Json generation_config_json(const Metadata& metadata) {
  Json config = Json::object();
  config["eos_token_id"] = end_token_ids(metadata);
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kNumbers = {{
      {"general.sampling.temp", "temperature"},
      {"general.sampling.top_p", "top_p"},
      {"general.sampling.min_p", "min_p"},
      {"general.sampling.penalty_repeat", "repetition_penalty"},
  }};
  for (const auto& [key, member] : kNumbers) {
    if (const auto value = metadata.number(key)) config[std::string(member)] = *value;
  }
  constexpr std::string_view kTopK = "general.sampling.top_k";
  if (const auto top_k = metadata.integer(kTopK, -1, std::numeric_limits<int32_t>::max())) {
    config["top_k"] = *top_k;
  }
  return config;
}

}  // namespace reprise::weights::gguf
