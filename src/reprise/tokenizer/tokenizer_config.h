#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::tokenizer {

struct NamedChatTemplate {
  std::string name;    // "default" when the file has one template without a name
  std::string source;  // Jinja
};

/// The files beside the vocabulary: tokenizer_config.json; special_tokens_map.json, for tokens that
/// the first file does not name; chat_template.jinja or else chat_template.json, which override a
/// template in the first file; and additional_chat_templates/NAME.jinja, templates with names.
struct TokenizerConfig {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> pad_token;
  std::optional<std::string> unk_token;
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  /// The file with the template "default".
  std::string_view template_file = "tokenizer_config.json";
  std::vector<NamedChatTemplate> chat_templates;

  /// Reads the files that exist; every file may be missing. \throws FileError E_TOKENIZER, E_DEPTH
  static TokenizerConfig load(const std::filesystem::path& model_dir);
  /// Reads only the text of tokenizer_config.json.
  static TokenizerConfig from_json(std::string_view text, std::string_view path);

  /// Source of the template `name`; empty when there is none.
  [[nodiscard]] std::string_view chat_template(std::string_view name = "default") const;
};

}  // namespace reprise::tokenizer
