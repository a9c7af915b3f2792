#include "reprise/tokenizer/word_piece_model.h"

#include <algorithm>
#include <utility>

#include "reprise/base/text/utf8.h"

namespace reprise::tokenizer {
namespace {

size_t num_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

}  // namespace

WordPieceModel::WordPieceModel(Vocabulary vocabulary,
                               WordPieceOptions options,
                               std::vector<bool> is_control)
    : vocabulary_(std::move(vocabulary)),
      options_(std::move(options)),
      is_control_(std::move(is_control)) {}

WordPieceModel::Piece WordPieceModel::longest_piece(std::string_view rest,
                                                    bool is_first,
                                                    BpeModel::Allowed allowed) const {
  std::string candidate = (is_first ? std::string() : options_.continuing_prefix);
  const size_t prefix_bytes = candidate.size();
  candidate.append(rest);
  while (candidate.size() > prefix_bytes) {
    if (const auto id = vocabulary_.find(candidate)) {
      const auto index = static_cast<size_t>(*id);
      const bool is_refused = allowed == BpeModel::Allowed::no_control_tokens &&
                              index < is_control_.size() && is_control_[index];
      if (!is_refused) return {.id = *id, .bytes = candidate.size() - prefix_bytes};
    }
    candidate.resize(previous_boundary(candidate, candidate.size()));
  }
  return {};
}

void WordPieceModel::encode(std::string_view word,
                            BpeModel::Allowed allowed,
                            std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  const size_t num_before = ids.size();
  bool is_known = num_characters(word) <= options_.max_characters;
  for (size_t begin = 0; is_known && begin < word.size();) {
    const Piece piece = longest_piece(word.substr(begin), begin == 0, allowed);
    is_known = piece.id >= 0;
    if (is_known) ids.push_back(piece.id);
    begin += piece.bytes;
  }
  if (is_known) return;
  ids.resize(num_before);
  ids.push_back(options_.unknown_id);
}

}  // namespace reprise::tokenizer
