#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/tokenizer/tokenizer_file.h"
#include "reprise/tokenizer/vocabulary_files/folder_settings.h"

/// The components of a tokenizer.json as JSON.
namespace reprise::tokenizer::json_components {

inline constexpr std::string_view kSpaceMark = "\u2581";

[[nodiscard]] Json sequence(std::string_view member, std::initializer_list<Json> steps);
[[nodiscard]] Json replace(std::string_view text, std::string_view content);
[[nodiscard]] Json replace_pattern(std::string_view pattern, std::string_view content);
[[nodiscard]] Json isolate(std::string_view pattern);
[[nodiscard]] Json metaspace(std::string_view prepend_scheme, bool split);
[[nodiscard]] Json byte_level(bool add_prefix_space, bool use_regex);
[[nodiscard]] Json precompiled(std::string_view character_map);

/// One part of a prompt's template: a token, or one of the texts ("A", "B").
struct TemplatePiece {
  std::string token;  // empty: the text
  std::string text;
  uint32_t type = 0;
  uint32_t id = 0;  // of the token
};
[[nodiscard]] TemplatePiece text_piece(std::string_view name, uint32_t type);
[[nodiscard]] Json template_processing(const std::vector<TemplatePiece>& single,
                                       const std::vector<TemplatePiece>& pair);

/// The token with `role` ("bos_token"), and its id in `file`. \throws FileError E_TOKENIZER if no
/// file names the token or gives it an id
[[nodiscard]] TemplatePiece token_piece(std::string_view role,
                                        const FolderSettings& settings,
                                        const TokenizerFile& file);

/// The template of text models: `bos` and `eos` may each be missing (empty tokens).
[[nodiscard]] Json bos_eos_template(const TemplatePiece& bos, const TemplatePiece& eos);
/// The template of BERT: [CLS] A [SEP] B [SEP], in which the second text has its own type.
[[nodiscard]] Json bert_template(const TemplatePiece& begin, const TemplatePiece& end);

}  // namespace reprise::tokenizer::json_components
