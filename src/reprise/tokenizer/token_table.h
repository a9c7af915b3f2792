#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/tokenizer/tokenizer_file.h"
#include "reprise/tokenizer/vocabulary.h"

namespace reprise::tokenizer {

/// The place of a table in a file, for error messages.
struct TablePlace {
  std::string_view path;
  std::string_view pointer;  // a JSON pointer; empty: the whole file is the table
};

/// Adds a token. \throws FileError E_TOKENIZER for a repeated token or id, and for an id that lies
/// far beyond the number of tokens
void add_token(std::string_view token,
               uint32_t id,
               const TablePlace& place,
               Vocabulary& vocabulary);

/// Adds the merge of `rank`. \throws FileError E_TOKENIZER for a token without an id
void add_merge(std::string_view left,
               std::string_view right,
               uint32_t rank,
               const TablePlace& place,
               TokenizerFile& file);

}  // namespace reprise::tokenizer
