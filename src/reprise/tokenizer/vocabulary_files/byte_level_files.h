#pragma once

#include "reprise/tokenizer/tokenizer_file.h"
#include "reprise/tokenizer/vocabulary_files/folder_settings.h"

namespace reprise::tokenizer {

/// Makes the tokenizer of `vocab.json` and `merges.txt`. The class of the tokenizer decides how
/// text is cut before merging and how a prompt begins, which these files do not say. `settings`
/// gets the tokens of the class. \throws FileError E_TOKENIZER, also for an unknown class;
/// E_TRUNCATED
[[nodiscard]] TokenizerFile byte_level_tokenizer(FolderSettings& settings);

/// Makes the tokenizer of BERT's `vocab.txt`, which has one token per line. \throws FileError
/// E_TOKENIZER
[[nodiscard]] TokenizerFile word_piece_tokenizer(FolderSettings& settings);

}  // namespace reprise::tokenizer
