#pragma once

#include <string>
#include <vector>

#include "reprise/weights/gguf/metadata.h"

namespace reprise::weights::gguf {

/// The text of the tokenizer.json that a model with this metadata would have: byte-level BPE
/// ("gpt2", with the pre-tokenizers of kPreTokenizers) or SentencePiece BPE ("llama").
/// \throws FileError E_TOKENIZER naming the key and what is supported
[[nodiscard]] std::string tokenizer_json(const Metadata& metadata);

/// What is missing in this metadata or not used, for people. llama.cpp warns of the same.
[[nodiscard]] std::vector<std::string> tokenizer_warnings(const Metadata& metadata);

/// The text of the tokenizer_config.json: names of control tokens, and chat templates.
[[nodiscard]] std::string tokenizer_config_json(const Metadata& metadata);

}  // namespace reprise::weights::gguf
