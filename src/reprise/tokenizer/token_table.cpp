#include "reprise/tokenizer/token_table.h"

#include <fmt/format.h>

#include <string>

#include "reprise/base/error.h"

namespace reprise::tokenizer {

void add_token(std::string_view token,
               uint32_t id,
               const TablePlace& place,
               Vocabulary& vocabulary) {
  const auto fail = [&](const std::string& message) {
    throw FileError("E_TOKENIZER", place.path, place.pointer, message);
  };
  switch (vocabulary.add(token, id)) {
    case Vocabulary::AddResult::added:
      return;
    case Vocabulary::AddResult::repeated_token:
      fail(fmt::format("token '{}' is repeated", token));
      return;
    case Vocabulary::AddResult::repeated_id:
      fail(fmt::format("id {} is given to '{}' and to '{}'",
                       id,
                       vocabulary.token(static_cast<int32_t>(id)).value_or(""),
                       token));
      return;
    case Vocabulary::AddResult::id_out_of_range:
      fail(fmt::format("id {} of '{}' lies far beyond the number of tokens", id, token));
  }
}

void add_merge(std::string_view left,
               std::string_view right,
               uint32_t rank,
               const TablePlace& place,
               TokenizerFile& file) {
  const auto find = [&](std::string_view token) {
    const auto id = file.vocabulary.find(token);
    if (!id) {
      throw FileError("E_TOKENIZER",
                      place.path,
                      fmt::format("{}/{}", place.pointer, rank),
                      fmt::format("token '{}' of this merge is not in the vocabulary", token));
    }
    return static_cast<uint32_t>(*id);
  };
  std::string joined;
  joined.reserve(left.size() + right.size());
  joined.append(left).append(right);
  const uint32_t left_id = find(left);
  const uint32_t right_id = find(right);
  file.merges.set(left_id, right_id, {rank, find(joined)});
}

}  // namespace reprise::tokenizer
