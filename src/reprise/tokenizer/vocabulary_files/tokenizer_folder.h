#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reprise/tokenizer/tokenizer.h"

namespace reprise::tokenizer {

/// The vocabulary files of `folder` that load_tokenizer_folder() reads; empty: there is none.
[[nodiscard]] std::vector<std::string> vocabulary_files(const std::filesystem::path& folder);

/// The tokenizer of a model folder: tokenizer.json, or else the first of these that the folder has:
/// tekken.json, a SentencePiece model (tokenizer.model, sentencepiece.bpe.model, spiece.model), a
/// file of tiktoken (tokenizer.model, tiktoken.model, qwen.tiktoken), vocab.json with merges.txt,
/// vocab.txt. The files beside it name the special tokens and the class.
/// \throws FileError E_TOKENIZER that says what is missing and how to convert it; E_TRUNCATED,
/// E_DEPTH, E_REGEX
[[nodiscard]] Tokenizer load_tokenizer_folder(const std::filesystem::path& folder);

}  // namespace reprise::tokenizer
