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
#include "reprise/weights/tensor_spec.h"
#include "reprise/weights/token_limits.h"

namespace reprise::weights::gguf {
namespace {

// Names of general.architecture. Mistral models of the kind that this engine runs are "llama".
// MiniCPM computes what Granite does, and its files have the factors under Granite's keys.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kArchitectures = {{
    {"ernie4_5", "Ernie4_5ForCausalLM"},
    {"granite", "GraniteForCausalLM"},
    {"granitemoe", "GraniteMoeForCausalLM"},
    {"llama", "LlamaForCausalLM"},
    {"minicpm", "GraniteForCausalLM"},
    {"olmo2", "Olmo2ForCausalLM"},
    {"olmoe", "OlmoeForCausalLM"},
    {"phi3", "Phi3ForCausalLM"},
    {"qwen2", "Qwen2ForCausalLM"},
    {"qwen2moe", "Qwen2MoeForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},
    {"qwen3moe", "Qwen3MoeForCausalLM"},
    {"seed_oss", "SeedOssForCausalLM"},
    {"smollm3", "SmolLM3ForCausalLM"},
}};
// The class of "llama" files with experts.
constexpr std::string_view kLlamaWithExperts = "MixtralForCausalLM";

// A generous limit: parse_model_config() later checks the exact range of each member.
constexpr int64_t kMost = int64_t{1} << 40;

std::string_view class_of(const Metadata& metadata) {
  constexpr std::string_view kKey = "general.architecture";
  const std::string* name = metadata.string(kKey);
  if (name == nullptr) metadata.fail(kKey, "is required: the name of the architecture");
  if (*name == "llama" && metadata.integer("llama.expert_count", 0, kMost).value_or(0) != 0) {
    return kLlamaWithExperts;
  }
  std::string supported;
  for (const auto& [known, model_class] : kArchitectures) {
    if (known == *name) return model_class;
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ", known);
  }
  metadata.fail(
      kKey,
      fmt::format(
          "'{}' is not supported in a GGUF file; supported: {}", visible(*name), supported));
}

/// Keys of the architecture: "llama.block_count".
class ArchitectureKeys {
 public:
  explicit ArchitectureKeys(const Metadata& metadata)
      : metadata_(metadata), prefix_(*metadata.string("general.architecture") + ".") {}

  [[nodiscard]] std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  [[nodiscard]] bool is_of(std::string_view architecture) const {
    return prefix_ == std::string(architecture) + ".";
  }
  [[nodiscard]] int64_t required(std::string_view name) const {
    return metadata_.required_integer(key(name), 1, kMost);
  }
  [[nodiscard]] std::optional<int64_t> integer(std::string_view name) const {
    return metadata_.integer(key(name), 0, kMost);
  }
  [[nodiscard]] std::optional<double> number(std::string_view name) const {
    return metadata_.number(key(name));
  }
  [[nodiscard]] const std::string* string(std::string_view name) const {
    return metadata_.string(key(name));
  }
  [[noreturn]] void fail(std::string_view name, std::string_view message) const {
    metadata_.fail(key(name), message);
  }

 private:
  const Metadata& metadata_;
  std::string prefix_;
};

/// How the files of a class with experts name them, and what llama.cpp knows without the file.
struct ExpertTraits {
  std::string_view model_class;
  std::string_view count;    // the member of config.json
  std::string_view size;     // the same: rows of an expert
  bool renormalises = true;  // norm_topk_prob
  bool has_shared_expert = false;
};
// Source: the constructors of each model in llama.cpp's src/models, which pass norm_w.
constexpr std::array<ExpertTraits, 5> kExpertTraits = {{
    {.model_class = "GraniteMoeForCausalLM",
     .count = "num_local_experts",
     .size = "intermediate_size"},
    {.model_class = kLlamaWithExperts, .count = "num_local_experts", .size = "intermediate_size"},
    {.model_class = "OlmoeForCausalLM",
     .count = "num_experts",
     .size = "intermediate_size",
     .renormalises = false},
    {.model_class = "Qwen2MoeForCausalLM",
     .count = "num_experts",
     .size = "moe_intermediate_size",
     .renormalises = false,
     .has_shared_expert = true},
    {.model_class = "Qwen3MoeForCausalLM", .count = "num_experts", .size = "moe_intermediate_size"},
}};

const ExpertTraits* find_expert_traits(std::string_view model_class) {
  const auto* const found =
      std::ranges::find(kExpertTraits, model_class, &ExpertTraits::model_class);
  return found == kExpertTraits.end() ? nullptr : &*found;
}

// After feed_forward_length, which files of some converters have for experts.
void read_experts(const ArchitectureKeys& keys, const ExpertTraits& traits, Json& config) {
  config[std::string(traits.count)] = keys.required("expert_count");
  const int64_t top_k = keys.required("expert_used_count");
  config["num_experts_per_tok"] = top_k;
  // llama.cpp's rule for a file without a size of experts: either each expert is as large as a
  // dense MLP, or all experts of a token together are.
  const int64_t dense = keys.required("feed_forward_length");
  const int64_t size_by_default = traits.size == "intermediate_size" ? dense : dense / top_k;
  config[std::string(traits.size)] =
      keys.integer("expert_feed_forward_length").value_or(size_by_default);
  config["norm_topk_prob"] = traits.renormalises;
  constexpr std::string_view kShared = "expert_shared_feed_forward_length";
  if (traits.has_shared_expert) {
    config["shared_expert_intermediate_size"] = keys.integer(kShared).value_or(dense);
  } else if (keys.integer(kShared).value_or(0) != 0) {
    keys.fail(kShared, fmt::format("shared experts are not supported in {}", traits.model_class));
  }
  if (keys.integer("leading_dense_block_count").value_or(0) != 0) {
    keys.fail("leading_dense_block_count", "is not supported");
  }
  if (const double scale = keys.number("expert_weights_scale").value_or(0);
      scale != 0 && scale != 1) {
    keys.fail("expert_weights_scale", "is not supported");
  }
}

void refuse_unsupported(const ArchitectureKeys& keys, bool has_multipliers, bool has_experts) {
  if (!has_experts && keys.integer("expert_count").value_or(0) != 0) {
    keys.fail("expert_count", "this architecture is supported without experts only");
  }
  for (const std::string_view name : {"attention.clamp_kqv", "logit_scale"}) {
    if (has_multipliers && name == "logit_scale") continue;
    if (keys.number(name).value_or(0) != 0) keys.fail(name, "is not supported");
  }
}

// llama.cpp has factors of its own for files of MiniCPM that name none.
void require_multipliers(const ArchitectureKeys& keys) {
  for (const std::string_view name : {"embedding_scale", "residual_scale", "logit_scale"}) {
    if (!keys.number(name)) keys.fail(name, "is required; convert the model again to get it");
  }
}

// Those of Granite. As in llama.cpp, a factor that is absent or 0 is not applied, and attention is
// then scaled as usual.
void read_multipliers(const ArchitectureKeys& keys, Json& config) {
  const auto factor = [&](std::string_view name, double by_default) {
    const double value = keys.number(name).value_or(0);
    return value == 0 ? by_default : value;
  };
  const double usual_scale = 1 / std::sqrt(config["head_dim"].get<double>());
  config["attention_multiplier"] = factor("attention.scale", usual_scale);
  config["embedding_multiplier"] = factor("embedding_scale", 1);
  config["residual_multiplier"] = factor("residual_scale", 1);
  config["logits_scaling"] = factor("logit_scale", 1);
}

int64_t read_head_dim(const ArchitectureKeys& keys, int64_t hidden_size, int64_t num_heads) {
  const int64_t head_dim =
      keys.integer("attention.key_length").value_or(num_heads == 0 ? 0 : hidden_size / num_heads);
  for (const std::string_view name : {"attention.value_length", "rope.dimension_count"}) {
    if (name == "rope.dimension_count" && keys.is_of("phi3")) continue;
    if (const int64_t other = keys.integer(name).value_or(head_dim); other != head_dim) {
      keys.fail(name,
                fmt::format("is {}, only that of the keys, {}, is supported", other, head_dim));
    }
  }
  return head_dim;
}

void read_rope(const ArchitectureKeys& keys, Json& config) {
  config["rope_theta"] = keys.number("rope.freq_base").value_or(10000.0);
  const std::string* type = keys.string("rope.scaling.type");
  const bool is_longrope = type != nullptr && *type == "longrope" && keys.is_of("phi3");
  if (type != nullptr && *type != "none" && *type != "linear" && !is_longrope) {
    keys.fail("rope.scaling.type",
              fmt::format("'{}' is not supported; supported: none, linear", visible(*type)));
  }
  double factor = keys.number("rope.scale_linear").value_or(1.0);  // of files before 2024
  if (type != nullptr && *type == "linear") {
    factor = keys.number("rope.scaling.factor").value_or(factor);
  }
  if (factor != 1.0) config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", factor}};
}

// Phi-3 turns the first part of each head, and may have a window. As in Transformers, the window
// counts, which llama.cpp leaves out.
void read_phi3(const ArchitectureKeys& keys, Json& config) {
  const auto head_dim = config["head_dim"].get<int64_t>();
  const int64_t turned = keys.integer("rope.dimension_count").value_or(head_dim);
  if (turned != head_dim) {
    config["partial_rotary_factor"] = static_cast<double>(turned) / static_cast<double>(head_dim);
  }
  const int64_t window = keys.integer("attention.sliding_window").value_or(0);
  if (window != 0) config["sliding_window"] = window;
}

// The factors of longrope lie in tensors. The engine computes the attention factor, as
// Transformers.
void read_longrope(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  if (traits.short_factors.empty() && traits.long_factors.empty()) return;
  constexpr std::string_view kOriginal = "rope.scaling.original_context_length";
  const auto original = keys.integer(kOriginal);
  if (!original) keys.fail(kOriginal, "is required: the file has rope_factors");
  if (!keys.is_of("phi3")) keys.fail(kOriginal, "longrope is supported for phi3 alone");
  config["original_max_position_embeddings"] = *original;
  config["rope_scaling"] = {{"rope_type", "longrope"},
                            {"short_factor", traits.short_factors},
                            {"long_factor", traits.long_factors}};
}

std::vector<int64_t> end_token_ids(const Metadata& metadata) {
  std::vector<int64_t> ids;
  const auto add = [&](int64_t id) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end() && ids.size() < kMaxEosTokens) {
      ids.push_back(id);
    }
  };
  for (const std::string_view name : {"eos", "eot", "eom"}) {
    const auto id = metadata.integer(
        fmt::format("tokenizer.ggml.{}_token_id", name), 0, std::numeric_limits<int32_t>::max());
    if (id) add(*id);
  }
  // Files rarely name more than one end token; the others are known by their text, as in llama.cpp.
  constexpr std::array<std::string_view, 4> kEndTokens = {
      "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>"};
  const std::vector<std::string>* tokens = metadata.strings("tokenizer.ggml.tokens");
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
  Json config;
  const std::string_view model_class = class_of(metadata);
  const bool has_multipliers = model_class.starts_with("Granite");
  const ExpertTraits* experts = find_expert_traits(model_class);
  config["architectures"] = Json::array({std::string(model_class)});
  const ArchitectureKeys keys(metadata);
  refuse_unsupported(keys, has_multipliers, experts != nullptr);
  if (traits.vocab_size == 0) {
    throw FileError("E_MISSING",
                    metadata.path(),
                    "token_embd.weight",
                    "the file has no such tensor; is it a vocabulary or an adapter only?");
  }
  config["vocab_size"] = traits.vocab_size;
  config["hidden_size"] = keys.required("embedding_length");
  config["intermediate_size"] = keys.required("feed_forward_length");
  config["num_hidden_layers"] = keys.required("block_count");
  config["num_attention_heads"] = keys.required("attention.head_count");
  config["num_key_value_heads"] =
      keys.integer("attention.head_count_kv").value_or(keys.required("attention.head_count"));
  config["max_position_embeddings"] = keys.required("context_length");
  config["head_dim"] =
      read_head_dim(keys, keys.required("embedding_length"), keys.required("attention.head_count"));
  const std::optional<double> epsilon = keys.number("attention.layer_norm_rms_epsilon");
  if (!epsilon) keys.fail("attention.layer_norm_rms_epsilon", "is required: a number");
  config["rms_norm_eps"] = *epsilon;
  config["tie_word_embeddings"] = !traits.has_lm_head;
  if (experts != nullptr) read_experts(keys, *experts, config);
  config["attention_bias"] = traits.has_attention_bias;
  if (experts != nullptr) config["qkv_bias"] = traits.has_attention_bias;
  config["mlp_bias"] = traits.has_mlp_bias;
  config["attention_out_bias"] = traits.has_attention_out_bias;  // read for Seed-OSS alone
  config["use_bias"] = traits.has_attention_bias;                // the name in ERNIE 4.5
  read_rope(keys, config);
  if (keys.is_of("phi3")) read_phi3(keys, config);
  read_longrope(keys, traits, config);
  if (keys.is_of("minicpm")) require_multipliers(keys);
  if (has_multipliers) read_multipliers(keys, config);
  config["eos_token_id"] = end_token_ids(metadata);
  return config;
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
