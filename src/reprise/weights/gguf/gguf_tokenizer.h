#pragma once

#include <string>
#include <vector>

#include "reprise/weights/gguf/metadata.h"

namespace reprise::weights::gguf {

/// The tokenizer.json that corresponds to this metadata: byte-level BPE ("gpt2", with the
/// pre-tokenizers of kPreTokenizers) or SentencePiece BPE ("llama"). \throws FileError E_TOKENIZER
/// naming the key and what is supported
[[nodiscard]] std::string tokenizer_json(const Metadata& metadata);

/// Warnings for people about facts that are missing in this metadata or that are ignored. llama.cpp
/// gives the same warnings.
[[nodiscard]] std::vector<std::string> tokenizer_warnings(const Metadata& metadata);

/// The text of the tokenizer_config.json: names of control tokens, and chat templates.
[[nodiscard]] std::string tokenizer_config_json(const Metadata& metadata);

}  // namespace reprise::weights::gguf
