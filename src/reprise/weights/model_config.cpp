#include "reprise/weights/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/weights/classifier_config.h"
#include "reprise/weights/config_overrides.h"
#include "reprise/weights/config_reader.h"
#include "reprise/weights/families/family_config.h"
#include "reprise/weights/tensor_spec.h"
#include "reprise/weights/text_part.h"
#include "reprise/weights/token_limits.h"

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

// The family of a classifier is that of its layers: Qwen3ForCausalLM, BertModel.
const Family* find_family_of_classifier(std::string_view name) {
  const std::string_view stem = classifier_stem(name);
  if (stem.empty()) return nullptr;
  for (const Family& known : kFamilies) {
    if (known.name == fmt::format("{}ForCausalLM", stem)) return &known;
    if (known.name == fmt::format("{}Model", stem)) return &known;
  }
  return nullptr;
}

const Family* find_family(std::string_view name) {
  for (const Family& known : kFamilies) {
    if (known.name == name || known.model_type == name) return &known;
  }
  return find_family_of_classifier(name);
}

[[noreturn]] void refuse_architecture(const ConfigReader& reader,
                                      std::string_view key,
                                      std::string_view name) {
  // Names that share the ending of most names are compared without it: Gemma is not a misspelt
  // Llama.
  constexpr std::string_view kEnding = "ForCausalLM";
  const bool has_ending = name.ends_with(kEnding);
  std::array<std::string_view, kFamilies.size()> names;
  std::string list;
  for (size_t i = 0; i < kFamilies.size(); ++i) {
    names[i] = kFamilies[i].name;
    list.append(i == 0 ? "" : ", ").append(names[i]);
    if (has_ending && names[i].ends_with(kEnding)) names[i].remove_suffix(kEnding.size());
  }
  const std::string_view nearest =
      nearest_name(has_ending ? name.substr(0, name.size() - kEnding.size()) : name, names);
  const auto found = std::find(names.begin(), names.end(), nearest);
  reader.fail(
      key,
      fmt::format("architecture '{}' is not supported; supported: {}{}",
                  visible(name),
                  list,
                  nearest.empty()
                      ? std::string()
                      : fmt::format("; did you mean '{}'?",
                                    kFamilies[static_cast<size_t>(found - names.begin())].name)));
}

bool names_classifier(const ConfigReader& reader) {
  const Json* list = reader.find("architectures");
  return list != nullptr && std::ranges::any_of(*list, [](const Json& name) {
           return !classifier_stem(name.get_ref<const std::string&>()).empty();
         });
}

const Family& read_family(const ConfigReader& reader) {
  const Json* list = reader.find("architectures");
  if (list == nullptr) {
    const std::string model_type = reader.string("model_type").value_or("");
    if (const Family* known = find_family(model_type)) return *known;
    refuse_architecture(reader, model_type.empty() ? "architectures" : "model_type", model_type);
  }
  if (!list->is_array() || list->empty()) {
    reader.fail("architectures", "must be a list with the name of the model class");
  }
  for (const Json& name : *list) {
    if (!name.is_string()) reader.fail("architectures", "must be a list of strings");
    if (const Family* known = find_family(name.get_ref<const std::string&>())) return *known;
  }
  refuse_architecture(reader, "architectures", list->front().get_ref<const std::string&>());
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

void read_warnings(const ConfigReader& reader, std::vector<std::string>& warnings) {
  if (reader.find("auto_map") != nullptr) {
    warnings.push_back("auto_map is ignored: code that comes with a model is never run");
  }
}

}  // namespace

std::string_view architecture_name(Architecture architecture) noexcept {
  return kFamilies[static_cast<size_t>(architecture)].name;
}

std::string_view model_type_name(Architecture architecture) noexcept {
  return kFamilies[static_cast<size_t>(architecture)].model_type;
}

int64_t ModelConfig::num_recurrent_layers() const noexcept {
  if (has_parallel_recurrence) return num_hidden_layers;
  return std::ranges::count(layer_types, LayerType::linear_attention);
}

int64_t ModelConfig::cache_index(int64_t layer) const {
  int64_t index = 0;
  for (int64_t other = first_layer(); other < layer; ++other) {
    index += static_cast<int64_t>(is_recurrent_layer(other) == is_recurrent_layer(layer));
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
  const Family& family = read_family(reader);
  config.architecture = family.architecture;
  read_warnings(reader, loaded.warnings);
  config.vocab_size = reader.required_integer("vocab_size", 1, kMaxVocabSize);
  family.read({.reader = reader, .config = config, .warnings = loaded.warnings});
  if (names_classifier(reader)) config.classifier = read_classifier_config(reader);
  config.dtype = read_dtype(reader);
  config.quantization = read_quantization_config(reader);
  config.bos_token_id = reader.integer("bos_token_id", 0, config.vocab_size - 1);
  config.eos_token_ids = reader.integers("eos_token_id", 0, config.vocab_size - 1, kMaxEosTokens);
  return loaded;
}

LoadedModelConfig load_model_config(const ModelDirectory& directory, const Json& overrides) {
  const std::string path = directory.path_of("config.json");
  const std::string text = directory.read_text("config.json", kMaxConfigBytes);
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
int64_t ModelConfig::derived_max_model_len() const {
  // max_position_embeddings of Gemma 3 counts the scaled positions.
  if (architecture == Architecture::gemma3) return max_position_embeddings;
  return scaled_positions(rope, max_position_embeddings);
}

  const auto without_effect = overrides_without_effect(overrides, whole, document, names);
  if (!without_effect.empty()) {
    loaded.warnings.push_back(
        fmt::format("{}: overrides without effect: {}; {} does not read them",
                    path,
                    visible(fmt::format("{}", fmt::join(without_effect, ", "))),
                    family.name));
  }
namespace {

// What a folder without config.json is, and what to do with it.
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

  if (!directory.contains("config.json")) refuse_missing_config(directory);
