#pragma once

#include <string_view>

#include "reprise/tokenizer/tokenizer_file.h"
#include "reprise/tokenizer/vocabulary_files/folder_settings.h"

namespace reprise::tokenizer {

/// Makes the tokenizer of Mistral's `tekken.json`, in which a text begins with BOS. `settings` gets
/// its tokens. \throws FileError E_TOKENIZER, E_TRUNCATED, E_DEPTH
[[nodiscard]] TokenizerFile tekken_tokenizer(FolderSettings& settings,
                                             std::string_view text,
                                             std::string_view path);

}  // namespace reprise::tokenizer
