#pragma once

#include "reprise/tokenizer/tokenizer_file.h"
#include "reprise/tokenizer/vocabulary_files/folder_settings.h"

namespace reprise::tokenizer {

/// The tokenizer of `vocab.json` and `merges.txt`. The class of the tokenizer says how text is cut
/// before merging and what a prompt begins with, which these files do not. `settings` gets the
/// tokens of the class.
/// \throws FileError E_TOKENIZER, also for a class that is not known; E_TRUNCATED
[[nodiscard]] TokenizerFile byte_level_tokenizer(FolderSettings& settings);

/// The tokenizer of BERT's `vocab.txt`, a token a line. \throws FileError E_TOKENIZER
[[nodiscard]] TokenizerFile word_piece_tokenizer(FolderSettings& settings);

}  // namespace reprise::tokenizer
