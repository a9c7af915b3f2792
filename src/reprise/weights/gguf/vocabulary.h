#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/gguf/metadata.h"

namespace reprise::weights::gguf {

/// Kinds of tokens. The enumerators have the values of tokenizer.ggml.token_type.
enum class TokenType : int32_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

/// The checked tokens of a file: texts are UTF-8, and the lists have equal lengths.
struct Vocabulary {
  const std::vector<std::string>* tokens = nullptr;  // owned by the metadata
  std::vector<TokenType> types;
  std::vector<float> scores;  // one for each token

  /// \throws FileError E_TOKENIZER naming the key
  [[nodiscard]] static Vocabulary read(const Metadata& metadata);
};

/// The id under this key ("tokenizer.ggml.bos_token_id"), if the file has it and a token has this
/// id. An id beyond the vocabulary counts as missing, as in llama.cpp (see tokenizer_warnings()).
[[nodiscard]] std::optional<int64_t> token_id(const Metadata& metadata,
                                              std::string_view key,
                                              const Vocabulary& vocabulary);

/// A pair of tokens that merge; merges are listed with the best first. SentencePiece files have
/// scores of tokens but no list of merges: each split of a token into two tokens is a merge with
/// the score of the whole. Source: transformers, convert_slow_tokenizer.py, generate_merges
struct Merge {
  std::string_view left;  // into the metadata
  std::string_view right;
};
[[nodiscard]] std::vector<Merge> merges_by_score(const Vocabulary& vocabulary);

[[noreturn]] void fail_tokenizer(const Metadata& metadata,
                                 std::string_view key,
                                 std::string_view message);

}  // namespace reprise::weights::gguf
