#include "reprise/tokenizer/vocabulary_files/scored_merges.h"

#include <fmt/format.h>

#include <unordered_map>

#include "reprise/base/error.h"

namespace reprise::tokenizer {

MergeTable merges_of(const std::vector<RankedToken>& tokens, std::string_view path) {
  std::unordered_map<std::string_view, uint32_t> ids;
  ids.reserve(tokens.size());
  for (const RankedToken& token : tokens) ids.emplace(token.text, token.id);
  MergeTable merges;
  merges.reserve(tokens.size());
  for (const RankedToken& whole : tokens) {
    for (size_t cut = 1; cut < whole.text.size(); ++cut) {
      const auto left = ids.find(whole.text.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(whole.text.substr(cut));
      if (right == ids.end()) continue;
      if (merges.size() == kMaxScoredMerges) {
        throw FileError("E_TOKENIZER",
                        path,
                        "",
                        fmt::format("its tokens merge in more than {} ways", kMaxScoredMerges));
      }
      merges.set(left->second, right->second, {whole.rank, whole.id});
    }
  }
  return merges;
}

}  // namespace reprise::tokenizer
