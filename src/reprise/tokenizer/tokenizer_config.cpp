#include "reprise/tokenizer/tokenizer_config.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/tokenizer/component.h"
#include "reprise/tokenizer/text_file.h"

namespace reprise::tokenizer {
namespace {

// The longest published chat templates have some 20 KB.
constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
constexpr size_t kMaxTemplates = 64;

/// Reads a token: a string or, in older files, an object with the member "content".
void read_token(const Component& root, std::string_view name, std::optional<std::string>& token) {
  if (token || !root.has(name)) return;
  const Component member = root.at(name);
  token = member.json().is_object() ? member.at("content").text() : member.text();
}

void read_tokens(const Component& root, TokenizerConfig& config) {
  read_token(root, "bos_token", config.bos_token);
  read_token(root, "eos_token", config.eos_token);
  read_token(root, "pad_token", config.pad_token);
  read_token(root, "unk_token", config.unk_token);
}

void read_templates(const Component& member, TokenizerConfig& config) {
  if (member.json().is_string()) {
    config.chat_templates.push_back({"default", member.text()});
    return;
  }
  for (const Component& item : member.elements()) {
    const std::string name = item.at("name").text();
    if (std::ranges::find(config.chat_templates, name, &NamedChatTemplate::name) !=
        config.chat_templates.end()) {
      item.at("name").fail("a second template of this name");
    }
    config.chat_templates.push_back({item.at("name").text(), item.at("template").text()});
  }
}

void set_template(std::string name, std::string source, TokenizerConfig& config) {
  std::erase_if(config.chat_templates, [&](const auto& item) { return item.name == name; });
  config.chat_templates.push_back({std::move(name), std::move(source)});
}

// Reads templates for tools and similar uses; each template is named after its file.
void read_more_templates(const std::filesystem::path& model_dir, TokenizerConfig& config) {
  std::error_code error;
  std::filesystem::directory_iterator files(model_dir / "additional_chat_templates", error);
  if (error) return;  // there is no such folder
  for (const auto& entry : files) {
    if (entry.path().extension() != ".jinja") continue;
    if (config.chat_templates.size() == kMaxTemplates) {
      throw FileError(
          "E_TOKENIZER", entry.path().string(), "", "the folder has too many templates");
    }
    set_template(
        entry.path().stem().string(), read_text_file(entry.path(), kMaxTemplateBytes), config);
  }
}

// For models that also read images, the file may contain an object with the member "chat_template".
void read_template_file(const std::filesystem::path& model_dir, TokenizerConfig& config) {
  for (const std::string_view name : {"chat_template.jinja", "chat_template.json"}) {
    const std::filesystem::path path = model_dir / name;
    if (!std::filesystem::exists(path)) continue;
    std::string source = read_text_file(path, kMaxTemplateBytes);
    if (name.ends_with(".json")) {
      const Json json = parse_json_file(source, path.string());
      source = Component(json, path.string(), "").at("chat_template").text();
    }
    set_template("default", std::move(source), config);
    config.template_file = name;
    return;
  }
}

}  // namespace

TokenizerConfig TokenizerConfig::from_json(std::string_view text, std::string_view path) {
  const Json json = parse_json_file(text, path);
  const Component root(json, path, "");
  TokenizerConfig config;
  read_tokens(root, config);
  if (root.has("add_bos_token")) config.add_bos_token = root.at("add_bos_token").boolean();
  if (root.has("add_eos_token")) config.add_eos_token = root.at("add_eos_token").boolean();
  if (root.has("chat_template")) read_templates(root.at("chat_template"), config);
  return config;
}

TokenizerConfig TokenizerConfig::load(const std::filesystem::path& model_dir) {
  TokenizerConfig config;
  const auto config_path = model_dir / "tokenizer_config.json";
  if (std::filesystem::exists(config_path)) {
    config = from_json(read_text_file(config_path, kMaxJsonFileBytes), config_path.string());
  }
  const auto map_path = model_dir / "special_tokens_map.json";
  if (std::filesystem::exists(map_path)) {
    const Json json =
        parse_json_file(read_text_file(map_path, kMaxJsonFileBytes), map_path.string());
    read_tokens(Component(json, map_path.string(), ""), config);
  }
  read_template_file(model_dir, config);
  read_more_templates(model_dir, config);
  return config;
}

std::string_view TokenizerConfig::chat_template(std::string_view name) const {
  for (const NamedChatTemplate& item : chat_templates) {
    if (item.name == name) return item.source;
  }
  return {};
}

}  // namespace reprise::tokenizer
