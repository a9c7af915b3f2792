#include "reprise/weights/config/text_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

constexpr std::string_view kOuterClassEnding = "ForConditionalGeneration";

// The language models inside some models have plain classes. In a text, a token has the same
// position in all three dimensions, so a rotation by sections ("mrope") equals the usual rotation.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kPlainTypes = {{
    {"qwen2_vl", "qwen2"},
    {"qwen2_5_vl", "qwen2"},
    {"qwen2_vl_text", "qwen2"},
    {"qwen2_5_vl_text", "qwen2"},
    {"qwen3_vl_text", "qwen3"},
}};

// Members that only the outer object may have.
constexpr std::array<std::string_view, 8> kSharedMembers = {"bos_token_id",
                                                            "eos_token_id",
                                                            "vocab_size",
                                                            "tie_word_embeddings",
                                                            "dtype",
                                                            "torch_dtype",
                                                            "quantization_config",
                                                            "auto_map"};

// Members that published configs of Gemma 3 leave out, because they are defaults of the class.
// Source: transformers, Gemma3TextConfig.
const Json& members_by_default(std::string_view model_type) {
  static const Json kOfGemma3 = {{"vocab_size", 262208},
                                 {"num_attention_heads", 8},
                                 {"num_key_value_heads", 4},
                                 {"head_dim", 256},
                                 {"max_position_embeddings", 131072}};
  static const Json kNone = Json::object();
  return model_type == "gemma3_text" ? kOfGemma3 : kNone;
}

constexpr std::string_view kMtp = "mtp.";
constexpr auto kOtherParts = std::to_array<std::string_view>({
    "visual.",
    "model.visual.",
    "vision_tower.",
    "model.vision_tower.",
    "vision_model.",
    "vit_large_projector.",
    "audio_tower.",
    "model.audio_tower.",
    "model.embed_vision.",
    "model.vision_embedder.",
    "model.embed_audio.",
    "multi_modal_projector.",
    "model.multi_modal_projector.",
    kMtp,
});

std::string text_of(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The name of the first class, if that class reads more than text.
std::string outer_class(const Json& config) {
  const auto list = config.find("architectures");
  if (list == config.end() || !list->is_array() || list->empty()) return {};
  if (!list->front().is_string()) return {};
  // An encoder-decoder model with that ending reads only text.
  const auto both = config.find("is_encoder_decoder");
  if (both != config.end() && *both == true && !config.contains("text_config")) return {};
  auto name = list->front().get<std::string>();
  return name.ends_with(kOuterClassEnding) ? name : std::string();
}

std::string_view plain_type(std::string_view model_type) {
  for (const auto& [type, plain] : kPlainTypes) {
    if (type == model_type) return plain;
  }
  return model_type;
}

}  // namespace

Json text_part_of_config(const Json& config,
                         std::string_view path,
                         std::vector<std::string>& warnings) {
  const std::string name = outer_class(config);
  if (name.empty()) return config;
  const auto inner = config.find("text_config");
  if (inner != config.end() && !inner->is_object()) {
    throw FileError("E_CONFIG", std::string(path), "text_config", "must be an object");
  }
  // The first models of this kind had no separate object for the language model.
  Json text = inner == config.end() ? config : *inner;
  const std::string model_type(plain_type(text_of(text, "model_type")));
  if (model_type.empty()) return config;  // its class is then refused by name
  text.erase("architectures");
  text["model_type"] = model_type;
  for (const std::string_view key : kSharedMembers) {
    const auto outer = config.find(key);
    if (outer != config.end() && !text.contains(key)) text[std::string(key)] = *outer;
  }
  for (const auto& [key, value] : members_by_default(model_type).items()) {
    if (!text.contains(key)) text[key] = value;
  }
  warnings.push_back(
      fmt::format("{}: only the language model of {} is loaded; it reads text and no images or "
                  "sounds",
                  path,
                  visible(name)));
  return text;
}

std::string name_in_text_part(std::string_view stored_name) {
  const auto begins_name = [&](std::string_view part) { return stored_name.starts_with(part); };
  if (std::ranges::any_of(kOtherParts, begins_name)) return {};
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kPrefixes = {{
      {"model.language_model.", "model."},
      {"language_model.", ""},
  }};
  for (const auto& [prefix, replacement] : kPrefixes) {
    if (!begins_name(prefix)) continue;
    return std::string(replacement).append(stored_name.substr(prefix.size()));
  }
  return std::string(stored_name);
}

std::string other_parts(const WeightSource& source, bool reads_mtp) {
  const std::vector<std::string_view> names = source.names();
  std::string list;
  for (const std::string_view part : kOtherParts) {
    if (reads_mtp && part == kMtp) continue;
    const auto count =
        std::ranges::count_if(names, [&](std::string_view name) { return name.starts_with(part); });
    if (count == 0) continue;
    list += fmt::format(
        "{}{} ({} tensors)", list.empty() ? "" : ", ", part.substr(0, part.size() - 1), count);
  }
  return list;
}

}  // namespace reprise::weights
