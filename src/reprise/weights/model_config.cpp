#include "reprise/weights/model_config.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "reprise/base/nearest_name.h"
#include "reprise/weights/config_overrides.h"
#include "reprise/weights/config_reader.h"
#include "reprise/weights/tensor_spec.h"
#include "reprise/weights/token_limits.h"

namespace reprise::weights {
namespace {

// Each bound is several times what the largest published dense models have (Llama 3.1 405B: hidden
// 16 384, intermediate 53 248, 126 layers, 128 heads; vocabularies up to 256 k; contexts up to
// 10 M) and low enough that the product of any two is below 2^48.
constexpr int64_t kMaxHiddenSize = int64_t{1} << 17;
constexpr int64_t kMaxIntermediateSize = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 1024;
constexpr int64_t kMaxVocabSize = int64_t{1} << 21;
// The largest config.json files list a few thousand labels.
constexpr uint64_t kMaxConfigBytes = uint64_t{4} << 20;

struct KnownArchitecture {
  std::string_view name;
  std::string_view model_type;
  Architecture architecture;
};

constexpr std::array<KnownArchitecture, 4> kArchitectures = {{
    {"LlamaForCausalLM", "llama", Architecture::llama},
    {"MistralForCausalLM", "mistral", Architecture::mistral},
    {"Qwen2ForCausalLM", "qwen2", Architecture::qwen2},
    {"Qwen3ForCausalLM", "qwen3", Architecture::qwen3},
}};

std::optional<Architecture> architecture_of(std::string_view name) {
  for (const KnownArchitecture& known : kArchitectures) {
    if (known.name == name || known.model_type == name) return known.architecture;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_architecture(const ConfigReader& reader,
                                      std::string_view key,
                                      std::string_view name) {
  // Names that share the ending of most names are compared without it: Gemma is not a misspelt
  // Llama.
  constexpr std::string_view kEnding = "ForCausalLM";
  const bool has_ending = name.ends_with(kEnding);
  std::array<std::string_view, kArchitectures.size()> names;
  std::string list;
  for (size_t i = 0; i < kArchitectures.size(); ++i) {
    names[i] = kArchitectures[i].name;
    list.append(i == 0 ? "" : ", ").append(names[i]);
    if (has_ending) names[i].remove_suffix(kEnding.size());
  }
  const std::string_view compared =
      has_ending ? name.substr(0, name.size() - kEnding.size()) : name;
  reader.fail(key,
              fmt::format("architecture '{}' is not supported; supported: {}{}",
                          visible(name),
                          list,
                          did_you_mean(compared, names)));
}

Architecture read_architecture(const ConfigReader& reader) {
  const Json* list = reader.find("architectures");
  if (list == nullptr) {
    const std::string model_type = reader.string("model_type").value_or("");
    if (const auto known = architecture_of(model_type)) return *known;
    refuse_architecture(reader, model_type.empty() ? "architectures" : "model_type", model_type);
  }
  if (!list->is_array() || list->empty()) {
    reader.fail("architectures", "must be a list with the name of the model class");
  }
  for (const Json& name : *list) {
    if (!name.is_string()) reader.fail("architectures", "must be a list of strings");
    if (const auto known = architecture_of(name.get_ref<const std::string&>())) return *known;
  }
  refuse_architecture(reader, "architectures", list->front().get_ref<const std::string&>());
}

void read_heads(const ConfigReader& reader, ModelConfig& config) {
  config.num_attention_heads = reader.required_integer("num_attention_heads", 1, kMaxHeads);
  config.num_key_value_heads =
      reader.integer("num_key_value_heads", 1, kMaxHeads).value_or(config.num_attention_heads);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    reader.fail("num_key_value_heads",
                fmt::format("{} does not divide num_attention_heads {}",
                            config.num_key_value_heads,
                            config.num_attention_heads));
  }
  if (const auto head_dim = reader.integer("head_dim", 2, kMaxHeadDim)) {
    config.head_dim = *head_dim;
  } else if (config.architecture == Architecture::qwen3) {
    config.head_dim = 128;  // Source: transformers, Qwen3Config
  } else if (config.hidden_size % config.num_attention_heads != 0) {
    reader.fail("num_attention_heads",
                fmt::format("{} does not divide hidden_size {} and head_dim is not given",
                            config.num_attention_heads,
                            config.hidden_size));
  } else {
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  if (config.head_dim % 2 != 0 || config.head_dim > kMaxHeadDim) {
    reader.fail("head_dim",
                fmt::format("must be even and at most {}, got {}", kMaxHeadDim, config.head_dim));
  }
}

// The model class decides which projections have a bias and which heads have a norm. Only some
// classes let the config choose. Source: transformers, modeling_{llama,mistral,qwen2,qwen3}.py
void read_biases(const ConfigReader& reader, ModelConfig& config) {
  const bool attention_bias = reader.boolean("attention_bias").value_or(false);
  const bool mlp_bias = reader.boolean("mlp_bias").value_or(false);
  switch (config.architecture) {
    case Architecture::llama:
      config.qkv_bias = config.o_bias = attention_bias;
      config.mlp_bias = mlp_bias;
      break;
    case Architecture::mistral:
      break;
    case Architecture::qwen2:
      config.qkv_bias = true;
      break;
    case Architecture::qwen3:
      config.qkv_bias = config.o_bias = attention_bias;
      config.qk_norm = true;
      break;
  }
}

LayerType read_layer_type(const ConfigReader& reader, const Json& value) {
  if (value == "full_attention") return LayerType::full_attention;
  if (value == "sliding_attention") return LayerType::sliding_attention;
  reader.fail("layer_types",
              fmt::format("'{}' is not supported; supported: full_attention, sliding_attention",
                          visible(value.is_string() ? value.get<std::string>() : value.dump())));
}

// Reads the window and the layers that have it by the model's class; an explicit list then
// overrides the layers.
void read_attention_window(const ConfigReader& reader, ModelConfig& config) {
  const auto window = reader.integer("sliding_window", 1, kMaxPositions);
  int64_t first_sliding_layer = config.num_hidden_layers;
  if (config.architecture == Architecture::mistral) {
    // Source: transformers, MistralConfig: a window of 4096 unless the config says null.
    config.sliding_window = reader.has("sliding_window") ? window : std::optional<int64_t>(4096);
    first_sliding_layer = 0;
  } else if (config.architecture != Architecture::llama &&
             reader.boolean("use_sliding_window").value_or(false)) {
    config.sliding_window = window;
    // Source: transformers, Qwen2Config: the first 28 layers see everything by default.
    first_sliding_layer = reader.integer("max_window_layers", 0, kMaxPositions).value_or(28);
  }
  config.layer_types.assign(static_cast<size_t>(config.num_hidden_layers),
                            LayerType::full_attention);
  if (config.sliding_window) {
    for (int64_t layer = first_sliding_layer; layer < config.num_hidden_layers; ++layer) {
      config.layer_types[static_cast<size_t>(layer)] = LayerType::sliding_attention;
    }
  }
  const Json* listed = reader.find("layer_types");
  if (listed == nullptr) return;
  if (!listed->is_array() || listed->size() != config.layer_types.size()) {
    reader.fail(
        "layer_types",
        fmt::format("must be a list of num_hidden_layers = {} entries", config.num_hidden_layers));
  }
  for (size_t layer = 0; layer < config.layer_types.size(); ++layer) {
    config.layer_types[layer] = read_layer_type(reader, listed->at(layer));
    if (config.layer_types[layer] == LayerType::sliding_attention && !config.sliding_window) {
      reader.fail("layer_types", "has a sliding_attention layer but no sliding_window applies");
    }
  }
}

std::optional<DType> read_dtype(const ConfigReader& reader) {
  // transformers 5 writes "dtype"; earlier versions write "torch_dtype".
  const std::string_view key = reader.find("dtype") != nullptr ? "dtype" : "torch_dtype";
  const std::optional<std::string> name = reader.string(key);
  if (!name || *name == "auto") return std::nullopt;
  const std::optional<DType> dtype = parse_dtype(*name);
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) {
    reader.fail(key,
                fmt::format("'{}' is not supported; supported: float32, bfloat16, float16",
                            visible(*name)));
  }
  return dtype;
}

void refuse_unsupported(const ConfigReader& reader) {
  const std::string activation = reader.string("hidden_act").value_or("silu");
  if (activation != "silu" && activation != "swish") {
    reader.fail("hidden_act",
                fmt::format("'{}' is not supported; supported: silu", visible(activation)));
  }
}

void read_warnings(const ConfigReader& reader, std::vector<std::string>& warnings) {
  if (reader.find("auto_map") != nullptr) {
    warnings.push_back("auto_map is ignored: code that comes with a model is never run");
  }
}

}  // namespace

std::string_view architecture_name(Architecture architecture) noexcept {
  for (const KnownArchitecture& known : kArchitectures) {
    if (known.architecture == architecture) return known.name;
  }
  return "";
}

LoadedModelConfig parse_model_config(std::string_view json, std::string_view path) {
  const Json document = parse_json_file(json, path, "E_CONFIG");
  const ConfigReader reader(document, path);
  LoadedModelConfig loaded;
  ModelConfig& config = loaded.config;
  config.architecture = read_architecture(reader);
  refuse_unsupported(reader);
  read_warnings(reader, loaded.warnings);
  config.hidden_size = reader.required_integer("hidden_size", 1, kMaxHiddenSize);
  config.intermediate_size = reader.required_integer("intermediate_size", 1, kMaxIntermediateSize);
  config.num_hidden_layers = reader.required_integer("num_hidden_layers", 1, kMaxLayers);
  config.vocab_size = reader.required_integer("vocab_size", 1, kMaxVocabSize);
  config.max_position_embeddings =
      reader.required_integer("max_position_embeddings", 1, kMaxPositions);
  // 0 is legal in principle but divides by zero on a zero row; 1 already drowns the signal.
  config.rms_norm_eps = reader.number("rms_norm_eps", 1e-30, 1.0).value_or(1e-6);
  read_heads(reader, config);
  read_biases(reader, config);
  read_attention_window(reader, config);
  config.rope = read_rope_parameters(reader, loaded.warnings);
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings").value_or(false);
  config.dtype = read_dtype(reader);
  config.quantization = read_quantization_config(reader);
  config.bos_token_id = reader.integer("bos_token_id", 0, config.vocab_size - 1);
  config.eos_token_ids = reader.integers("eos_token_id", 0, config.vocab_size - 1, kMaxEosTokens);
  return loaded;
}

LoadedModelConfig load_model_config(const ModelDirectory& directory, const Json& overrides) {
  const std::string path = directory.path_of("config.json");
  const std::string text = directory.read_text("config.json", kMaxConfigBytes);
  return parse_model_config(override_config(text, path, overrides), path);
}

}  // namespace reprise::weights
