#include "reprise/weights/config/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/weights/config/classifier_config.h"
#include "reprise/weights/config/config_overrides.h"
#include "reprise/weights/config/matryoshka_config.h"
#include "reprise/weights/config/text_part.h"
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"
#include "reprise/weights/files/config_reader.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

constexpr int64_t kMaxVocabSize = int64_t{1} << 21;
// The largest config.json files list a few thousand labels.
constexpr uint64_t kMaxConfigBytes = uint64_t{4} << 20;

struct Family {
  std::string_view name;
  std::string_view model_type;
  Architecture architecture;
  void (*read)(const FamilyConfig& in);
};

constexpr std::array kFamilies = {
#define X(architecture, name, model_type, reader) \
  Family{name, model_type, Architecture::architecture, reader},
#include "reprise/weights/families/family_list.inl"
#undef X
};

// The endings of class names. Before the ending, all classes of a family have the same name.
constexpr std::string_view kDecoderEnding = "ForCausalLM";
constexpr std::string_view kModelEnding = "Model";
constexpr std::string_view kClassifierEnding = "ForSequenceClassification";
constexpr std::string_view kMaskedEnding = "ForMaskedLM";

// "Qwen3" of "Qwen3ForCausalLM".
std::string_view stem_of(std::string_view name) {
  constexpr auto kEndings = std::to_array<std::string_view>({kDecoderEnding,
                                                             "ForConditionalGeneration",
                                                             kClassifierEnding,
                                                             kMaskedEnding,
                                                             "LMHeadModel",
                                                             kModelEnding});
  for (const std::string_view ending : kEndings) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

// Classes with the same layers: "Qwen3Model" gives the hidden states of Qwen3ForCausalLM, and
// "BertForMaskedLM" has a head that vectors do not need.
bool is_of_family(std::string_view name, const Family& known) {
  if (known.name == name || known.model_type == name) return true;
  if (known.architecture == Architecture::gemma3 && name == "Gemma3TextModel") return true;
  if (known.architecture == Architecture::gemma4 && name == "Gemma4TextModel") return true;
  const bool is_encoder = known.name == fmt::format("{}{}", stem_of(known.name), kModelEnding);
  const bool is_decoder = known.name.ends_with(kDecoderEnding);
  const bool has_ending = name.ends_with(kClassifierEnding) ||
                          (is_encoder && name.ends_with(kMaskedEnding)) ||
                          (is_decoder && name.ends_with(kModelEnding));
  return has_ending && (is_encoder || is_decoder) && stem_of(name) == stem_of(known.name);
}

const Family* find_family(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kFamilies, [&](const Family& known) { return is_of_family(name, known); });
  return found == kFamilies.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_architecture(const ConfigReader& reader,
                                      std::string_view key,
                                      std::string_view name) {
  // Names are compared without their ending, unless the ending is misspelt: otherwise Gemma would
  // count as a misspelt Llama.
  const bool has_ending = stem_of(name) != name;
  std::array<std::string_view, kFamilies.size()> names;
  std::ranges::transform(kFamilies, names.begin(), [has_ending](const Family& family) {
    return has_ending ? stem_of(family.name) : family.name;
  });
  const std::string_view nearest = nearest_name(stem_of(name), names);
  const auto found = std::find(names.begin(), names.end(), nearest);
  const std::string advice =
      nearest.empty() ? std::string()
                      : fmt::format(" (did you mean '{}'?)",
                                    kFamilies[static_cast<size_t>(found - names.begin())].name);
  reader.fail(key,
              fmt::format("architecture '{}' is not supported{}; `reprise reference architectures` "
                          "lists those that are",
                          visible(name),
                          advice));
}

struct NamedFamily {
  const Family& family;
  std::string class_name;  // empty: only the model type is given
};

NamedFamily read_family(const ConfigReader& reader) {
  const Json* list = reader.find("architectures");
  if (list == nullptr) {
    const std::string model_type = reader.string("model_type").value_or("");
    if (const Family* known = find_family(model_type)) return {*known, ""};
    refuse_architecture(reader, model_type.empty() ? "architectures" : "model_type", model_type);
  }
  if (!list->is_array() || list->empty()) {
    reader.fail("architectures", "must be a list with the name of the model class");
  }
  for (const Json& name : *list) {
    if (!name.is_string()) reader.fail("architectures", "must be a list of strings");
    const auto& text = name.get_ref<const std::string&>();
    if (const Family* known = find_family(text)) return {*known, text};
  }
  refuse_architecture(reader, "architectures", list->front().get_ref<const std::string&>());
}

// Reads whether attention sees later tokens, for decoders that were trained further as encoders.
void read_direction(const ConfigReader& reader, ModelConfig& config) {
  constexpr std::string_view kKey = "is_causal";
  if (reader.boolean(kKey).value_or(true)) return;
  const bool is_possible = !config.mla && !config.recurrent && !config.has_attention_sinks &&
                           !config.attention_chunk_size && !config.encoder &&
                           config.attention_soft_cap == 0;
  if (!is_possible) reader.fail(kKey, "only true is supported in this class");
  config.is_encoder = true;
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

// Reads the layer before the classifier.
void read_pooler(const ConfigReader& reader, ModelConfig& config) {
  ClassifierConfig& classifier = *config.classifier;
  if (config.architecture == Architecture::distilbert) {
    classifier.pooler_activation = DenseActivation::relu;
  }
  if (config.architecture != Architecture::modernbert) return;
  const auto require = [&](std::string_view key, std::string_view by_default, auto names) {
    const std::string name = reader.string(key).value_or(std::string(by_default));
    for (const auto& [known, value] : names) {
      if (known == name) return value;
    }
    reader.fail(key, fmt::format("'{}' is not supported", visible(name)));
  };
  classifier.pooler_bias = reader.boolean("classifier_bias").value_or(false);
  classifier.pooler_activation =
      require("classifier_activation",
              "gelu",
              std::array{std::pair{std::string_view("gelu"), DenseActivation::gelu},
                         std::pair{std::string_view("relu"), DenseActivation::relu},
                         std::pair{std::string_view("tanh"), DenseActivation::tanh}});
  classifier.pooling = require("classifier_pooling",
                               "cls",
                               std::array{std::pair{std::string_view("cls"), PoolingType::cls},
                                          std::pair{std::string_view("mean"), PoolingType::mean}});
}

void read_warnings(const ConfigReader& reader, std::vector<std::string>& warnings) {
  if (reader.find("auto_map") != nullptr) {
    warnings.emplace_back("auto_map is ignored: code that comes with a model is never run");
  }
}

}  // namespace

std::string_view architecture_name(Architecture architecture) noexcept {
  return kFamilies[static_cast<size_t>(architecture)].name;
}

std::string_view model_type_name(Architecture architecture) noexcept {
  return kFamilies[static_cast<size_t>(architecture)].model_type;
}

int64_t ModelConfig::derived_max_model_len() const {
  // max_position_embeddings of Gemma 3 counts the scaled positions.
  if (architecture == Architecture::gemma3) return max_position_embeddings;
  return scaled_positions(rope, max_position_embeddings);
}

int64_t ModelConfig::num_recurrent_layers() const noexcept {
  if (has_parallel_recurrence) return num_hidden_layers;
  return std::ranges::count(layer_types, LayerType::linear_attention);
}

int64_t ModelConfig::num_attention_layers() const {
  int64_t count = 0;
  for (int64_t layer = first_layer(); layer < end_layer(); ++layer) {
    const bool attends = has_parallel_recurrence || has_attention(layer);
    count += static_cast<int64_t>(attends && !shares_kv(layer));
  }
  return count;
}

int64_t ModelConfig::kv_layer_of(int64_t layer) const {
  if (!shares_kv(layer)) return layer;
  int64_t other = num_hidden_layers - num_kv_shared_layers - 1;
  while (layer_types[static_cast<size_t>(other)] != layer_types[static_cast<size_t>(layer)]) {
    --other;
  }
  return other;
}

int64_t ModelConfig::cache_index(int64_t layer) const {
  int64_t index = 0;
  const int64_t end = kv_layer_of(layer);
  for (int64_t other = first_layer(); other < end; ++other) {
    const bool has_cache = has_attention(other) || is_recurrent_layer(other);
    const bool is_of_kind = is_recurrent_layer(other) == is_recurrent_layer(layer);
    index += static_cast<int64_t>(has_cache && is_of_kind);
  }
  return index;
}

ModelConfig config_of_encoder(const ModelConfig& config) {
  ModelConfig own = config;
  own.encoder.reset();
  own.is_encoder = true;
  own.num_hidden_layers = config.encoder->num_layers;
  own.intermediate_size = config.encoder->intermediate_size;
  own.layer_types.assign(static_cast<size_t>(own.num_hidden_layers), LayerType::full_attention);
  return own;
}

LoadedModelConfig parse_model_config(std::string_view json,
                                     std::string_view path,
                                     const Json& overrides) {
  LoadedModelConfig loaded;
  const Json whole = override_model_config(parse_json_file(json, path, "E_CONFIG"), overrides);
  const Json document = text_part_of_config(whole, path, loaded.warnings);
  std::set<std::string, std::less<>> names;
  ConfigReader reader(document, path);
  reader.remember_names(names);
  ModelConfig& config = loaded.config;
  const auto [family, class_name] = read_family(reader);
  config.architecture = family.architecture;
  config.is_headless = class_name != family.name && class_name.ends_with(kModelEnding);
  read_warnings(reader, loaded.warnings);
  config.vocab_size = reader.required_integer("vocab_size", 1, kMaxVocabSize);
  family.read({.reader = reader, .config = config, .warnings = loaded.warnings});
  config.matryoshka = read_matryoshka_config(reader, config.hidden_size);
  read_direction(reader, config);
  if (class_name.ends_with(kClassifierEnding)) {
    if (config.architecture == Architecture::nomic_bert) {
      reader.fail("architectures", "NomicBertModel is supported only for vectors of texts");
    }
    config.classifier = read_classifier_config(reader);
    read_pooler(reader, config);
  }
  config.dtype = read_dtype(reader);
  config.quantization = read_quantization_config(reader);
  config.bos_token_id = reader.integer("bos_token_id", 0, config.vocab_size - 1);
  config.eos_token_ids = reader.integers("eos_token_id", 0, config.vocab_size - 1, kMaxEosTokens);
  const auto without_effect = overrides_without_effect(overrides, whole, document, names);
  if (!without_effect.empty()) {
    loaded.warnings.push_back(
        fmt::format("{}: overrides without effect: {}; {} does not read them",
                    path,
                    visible(fmt::format("{}", fmt::join(without_effect, ", "))),
                    family.name));
  }
  return loaded;
}

namespace {

// Says what a folder without config.json is, and what the user can do.
[[noreturn]] void refuse_missing_config(const ModelDirectory& directory) {
  constexpr size_t kMostNamed = 3;
  std::string advice = "no such file; a model folder has one";
  if (const auto files = directory.names_with_ending(".gguf", kMostNamed); !files.empty()) {
    advice = fmt::format("no such file; the folder has GGUF files: name one of them, as {}",
                         directory.path_of(files.front()));
  } else if (directory.contains("adapter_config.json")) {
    advice =
        "no such file; the folder has an adapter: name its base model, and the adapter with "
        "--enable-lora --lora-modules NAME=" +
        directory.path().string();
  } else if (directory.contains("params.json")) {
    advice =
        "no such file; the folder has a model in Mistral's own format (params.json): download the "
        "files of Transformers of the same model";
  }
  throw FileError("E_MISSING", directory.path_of("config.json"), "", advice);
}

}  // namespace

LoadedModelConfig load_model_config(const ModelDirectory& directory, const Json& overrides) {
  if (!directory.contains("config.json")) refuse_missing_config(directory);
  const std::string path = directory.path_of("config.json");
  std::string text = directory.read_text("config.json", kMaxConfigBytes);
  if (constexpr const char* kName = "hf_quant_config.json"; directory.contains(kName)) {
    Json config = parse_json_file(text, path, "E_CONFIG");
    add_modelopt_config(
        config,
        parse_json_file(
            directory.read_text(kName, kMaxConfigBytes), directory.path_of(kName), "E_CONFIG"));
    text = config.dump();
  }
  LoadedModelConfig loaded = parse_model_config(text, path, overrides);
  if (directory.contains("adapter_config.json")) {
    loaded.warnings.push_back(fmt::format(
        "{}: the adapter beside the model is not applied; --enable-lora --lora-modules NAME={}",
        directory.path_of("adapter_config.json"),
        directory.path().string()));
  }
  return loaded;
}

}  // namespace reprise::weights
