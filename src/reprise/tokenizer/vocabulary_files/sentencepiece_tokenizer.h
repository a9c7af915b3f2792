#pragma once

#include "reprise/tokenizer/tokenizer_file.h"
#include "reprise/tokenizer/vocabulary_files/folder_settings.h"
#include "reprise/tokenizer/vocabulary_files/sentencepiece_file.h"

namespace reprise::tokenizer {

/// The tokenizer of a SentencePiece model. It follows the settings of the model, like
/// SentencePieceProcessor.encode; the classes of XLM-RoBERTa, T5 and ALBERT renumber pieces or add
/// steps, like Transformers. `settings` gets the tokens that the model names. `path` names the
/// model in errors.
/// \throws FileError E_TOKENIZER, for a class whose numbering is not known too
[[nodiscard]] TokenizerFile sentencepiece_tokenizer(const SentencePieceFile& model,
                                                    FolderSettings& settings,
                                                    std::string_view path);

}  // namespace reprise::tokenizer
