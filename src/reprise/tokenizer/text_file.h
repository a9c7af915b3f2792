#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "reprise/base/json.h"

namespace reprise::tokenizer {

/// tokenizer.json of the largest published vocabularies has 35 MB.
inline constexpr size_t kMaxFileBytes = size_t{256} << 20;

/// Returns the whole file. \throws FileError E_TOKENIZER when it cannot be read or is too large
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path,
                                         size_t max_bytes = kMaxFileBytes);

/// Parses a small JSON document; the longest published added_tokens_decoder has some MB. \throws
/// FileError E_TOKENIZER, E_TRUNCATED, E_DEPTH
[[nodiscard]] Json parse_json_file(std::string_view text, std::string_view path);
inline constexpr size_t kMaxJsonFileBytes = size_t{32} << 20;

}  // namespace reprise::tokenizer
