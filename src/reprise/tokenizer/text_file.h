#pragma once

#include <filesystem>
#include <string>

namespace reprise::tokenizer {

/// tokenizer.json of the largest published vocabularies has 35 MB.
inline constexpr size_t kMaxFileBytes = size_t{256} << 20;

/// Returns the whole file. \throws FileError E_TOKENIZER when it cannot be read or is too large
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path,
                                         size_t max_bytes = kMaxFileBytes);

}  // namespace reprise::tokenizer
