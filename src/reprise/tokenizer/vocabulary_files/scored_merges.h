#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "reprise/tokenizer/merge_table.h"

namespace reprise::tokenizer {

/// A token that merges can build, and its rank: lower ranks merge first. Equal ranks are allowed.
struct RankedToken {
  std::string_view text;
  uint32_t id = 0;
  uint32_t rank = 0;
};

/// The merges of a vocabulary that has ranks of tokens but no list of merges: any two tokens whose
/// texts together are a third token merge into it, at its rank. BpeModel merges equal ranks from
/// the left, which is the order of SentencePiece and of tiktoken. `path` names the file in errors.
/// \pre the texts are distinct. \throws FileError E_TOKENIZER for more than kMaxScoredMerges
[[nodiscard]] MergeTable merges_of(const std::vector<RankedToken>& tokens, std::string_view path);

// Gemma's 262 144 pieces have some 600 000 merges. The limit bounds the memory for a hostile file.
inline constexpr size_t kMaxScoredMerges = size_t{1} << 21;

}  // namespace reprise::tokenizer
