#include "reprise/tokenizer/vocabulary_files/folder_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/tokenizer/component.h"
#include "reprise/tokenizer/text_file.h"
#include "reprise/tokenizer/vocabulary.h"

namespace reprise::tokenizer {
namespace {

constexpr std::array<std::string_view, 7> kRoles = {
    "bos_token", "eos_token", "unk_token", "pad_token", "cls_token", "sep_token", "mask_token"};
// The two names of the list of tokens without a role; the second one is from Transformers 5.
constexpr std::array<std::string_view, 2> kListsOfTokens = {"additional_special_tokens",
                                                            "extra_special_tokens"};
constexpr std::array<std::string_view, 3> kFlags = {"single_word", "lstrip", "rstrip"};

std::optional<Json> read_json(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  Json json = parse_json_file(read_text_file(path, kMaxJsonFileBytes), path.string());
  if (!json.is_object()) throw FileError("E_TOKENIZER", path.string(), "", "expected an object");
  return json;
}

// A token is a string, or an object with the member "content".
Json entry_of(const Component& token, bool is_special) {
  if (!token.json().is_object()) return added_token(token.text(), is_special);
  Json entry =
      added_token(token.at("content").text(), token.boolean_or("special", false) || is_special);
  for (const std::string_view flag : kFlags) {
    entry[std::string(flag)] = token.boolean_or(flag, false);
  }
  if (token.has("normalized")) entry["normalized"] = token.at("normalized").boolean();
  return entry;
}

class SettingsLoader {
 public:
  explicit SettingsLoader(const std::filesystem::path& folder) { settings_.folder = folder; }

  FolderSettings load() {
    if (auto config = read_json(settings_.folder / "tokenizer_config.json")) {
      settings_.config = std::move(*config);
    }
    const std::string path = settings_.path_of("tokenizer_config.json");
    const Component root(settings_.config, path, "");
    read_named(root);
    if (const auto map = read_json(settings_.folder / "special_tokens_map.json")) {
      read_named(Component(*map, settings_.path_of("special_tokens_map.json"), ""));
    }
    read_class(root);
    if (root.has("added_tokens_decoder")) {
      read_decoder(root.at("added_tokens_decoder"));
    } else if (const auto added = read_json(settings_.folder / "added_tokens.json")) {
      read_added(Component(*added, settings_.path_of("added_tokens.json"), ""));
    }
    return std::move(settings_);
  }

 private:
  void add_named(std::string_view role, const Component& token) {
    Json entry = entry_of(token, true);
    std::string content = entry["content"].get<std::string>();
    settings_.named.push_back({std::string(role), std::move(content), std::move(entry)});
  }

  // The first file that names a role has precedence.
  void read_named(const Component& root) {
    for (const std::string_view role : kRoles) {
      if (root.has(role) && !settings_.token(role)) add_named(role, root.at(role));
    }
    for (const std::string_view list : kListsOfTokens) {
      // In models with parts for images this is an object; the ids of its tokens are in another
      // place.
      if (!root.has(list) || !root.at(list).json().is_array()) continue;
      for (const Component& token : root.at(list).elements()) add_named(list, token);
    }
  }

  void read_class(const Component& root) {
    std::string name;
    if (root.has("tokenizer_class")) name = root.at("tokenizer_class").text();
    if (name.empty()) {
      const auto config = read_json(settings_.folder / "config.json");
      if (!config) return;
      const Component model(*config, settings_.path_of("config.json"), "");
      if (model.has("tokenizer_class")) {
        name = model.at("tokenizer_class").text();
      } else if (model.has("model_type")) {
        name = class_of_model(model.at("model_type").text());
      }
    }
    if (name.ends_with("Fast")) name.resize(name.size() - 4);
    settings_.tokenizer_class = std::move(name);
  }

  static std::string class_of_model(const std::string& model_type) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 34> kClasses = {{
        {"albert", "AlbertTokenizer"},
        {"bart", "BartTokenizer"},
        {"bert", "BertTokenizer"},
        {"codegen", "CodeGenTokenizer"},
        {"distilbert", "DistilBertTokenizer"},
        {"electra", "ElectraTokenizer"},
        {"gemma", "GemmaTokenizer"},
        {"gemma2", "GemmaTokenizer"},
        {"gemma3", "GemmaTokenizer"},
        {"gemma3_text", "GemmaTokenizer"},
        {"gpt2", "GPT2Tokenizer"},
        {"gpt_neo", "GPT2Tokenizer"},
        {"gpt_neox", "GPTNeoXTokenizer"},
        {"gptj", "GPT2Tokenizer"},
        {"internlm2", "InternLM2Tokenizer"},
        {"led", "LEDTokenizer"},
        {"llama", "LlamaTokenizer"},
        {"longformer", "LongformerTokenizer"},
        {"mistral", "LlamaTokenizer"},
        {"mixtral", "LlamaTokenizer"},
        {"mt5", "T5Tokenizer"},
        {"opt", "GPT2Tokenizer"},
        {"phi", "CodeGenTokenizer"},
        {"phi3", "LlamaTokenizer"},
        {"qwen2", "Qwen2Tokenizer"},
        {"qwen2_moe", "Qwen2Tokenizer"},
        {"qwen3", "Qwen2Tokenizer"},
        {"qwen3_moe", "Qwen2Tokenizer"},
        {"roberta", "RobertaTokenizer"},
        {"starcoder2", "GPT2Tokenizer"},
        {"t5", "T5Tokenizer"},
        {"umt5", "T5Tokenizer"},
        {"xlm-roberta", "XLMRobertaTokenizer"},
        {"kimi_k2", "TikTokenTokenizer"},
    }};
    for (const auto& [type, name] : kClasses) {
      if (type == model_type) return std::string(name);
    }
    return {};
  }

  void add(uint32_t id, Json entry) { settings_.added.emplace(id, std::move(entry)); }

  void read_decoder(const Component& decoder) {
    if (!decoder.json().is_object()) decoder.fail("expected an object");
    for (const auto& [key, value] : decoder.json().items()) {
      const Component token(value, decoder.file(), fmt::format("{}/{}", decoder.pointer(), key));
      uint32_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || id >= Vocabulary::kMaxId) {
        token.fail("the name of the member is not an id");
      }
      add(id, entry_of(token, false));
    }
  }

  void read_added(const Component& added) {
    for (const auto& [content, value] : added.json().items()) {
      const Component id(value, added.file(), fmt::format("/{}", content));
      // clang 14 cannot capture a structured binding by [&].
      const bool is_special = std::ranges::any_of(
          settings_.named, [&name = content](const FolderSettings::NamedToken& token) {
            return token.content == name;
          });
      add(static_cast<uint32_t>(id.integer(Vocabulary::kMaxId - 1)),
          added_token(content, is_special));
    }
  }

  FolderSettings settings_;
};

}  // namespace

Json added_token(std::string_view content, bool special) {
  return {{"content", std::string(content)},
          {"single_word", false},
          {"lstrip", false},
          {"rstrip", false},
          {"special", special}};
}

FolderSettings FolderSettings::load(const std::filesystem::path& folder) {
  return SettingsLoader(folder).load();
}

std::optional<bool> FolderSettings::flag(std::string_view name) const {
  const Component root(config, path_of("tokenizer_config.json"), "");
  if (!root.has(name)) return std::nullopt;
  return root.at(name).boolean();
}

std::optional<size_t> FolderSettings::integer(std::string_view name, size_t limit) const {
  const Component root(config, path_of("tokenizer_config.json"), "");
  if (!root.has(name)) return std::nullopt;
  return root.at(name).integer(limit);
}

std::optional<std::string> FolderSettings::token(std::string_view role) const {
  for (const NamedToken& token : named) {
    if (token.role == role) return token.content;
  }
  return std::nullopt;
}

void FolderSettings::set_defaults(std::span<const Role> roles) {
  for (const Role& role : roles) {
    if (token(role.role) || role.content.empty()) continue;
    named.push_back(
        {std::string(role.role), std::string(role.content), added_token(role.content, true)});
  }
}

bool FolderSettings::is_class(std::initializer_list<std::string_view> names) const {
  constexpr std::string_view kEnd = "Tokenizer";
  std::string_view name = tokenizer_class;
  if (name.ends_with(kEnd)) name.remove_suffix(kEnd.size());
  return std::ranges::find(names, name) != names.end();
}

std::string_view FolderSettings::text_of(uint32_t id, std::string_view piece) const {
  const auto found = added.find(id);
  if (found == added.end()) return piece;
  return found->second.at("content").get_ref<const std::string&>();
}

std::string FolderSettings::path_of(std::string_view file) const {
  return (folder / file).string();
}

Json added_tokens_json(const FolderSettings& settings,
                       const std::map<uint32_t, Json>& tokens,
                       const std::function<std::optional<int32_t>(std::string_view)>& find) {
  std::map<uint32_t, Json> all = settings.added;
  all.insert(tokens.begin(), tokens.end());
  std::map<std::string, uint32_t, std::less<>> ids;
  for (const auto& [id, entry] : all) ids.emplace(entry.at("content").get<std::string>(), id);
  for (const FolderSettings::NamedToken& token : settings.named) {
    if (const auto known = ids.find(token.content); known != ids.end()) {
      all[known->second]["special"] = true;
    } else if (const auto id = find(token.content)) {
      all.emplace(static_cast<uint32_t>(*id), token.entry);
      ids.emplace(token.content, static_cast<uint32_t>(*id));
    }
  }
  Json array = Json::array();
  for (auto& [id, entry] : all) {
    entry["id"] = id;
    array.push_back(std::move(entry));
  }
  return array;
}

}  // namespace reprise::tokenizer
