#include "reprise/speculative/ngram_drafter.h"

#include <algorithm>
#include <cstddef>

#include "reprise/base/assert.h"

namespace reprise::speculative {

NgramDrafter::NgramDrafter(const NgramLookup& lookup)
    : lookup_(lookup), borders_(static_cast<size_t>(lookup.prompt_lookup_max)) {
  REPRISE_ASSERT(
      lookup.prompt_lookup_min >= 1 && lookup.prompt_lookup_max >= lookup.prompt_lookup_min,
      "expected n-grams of at least 1 token, got {} to {} tokens",
      lookup.prompt_lookup_min,
      lookup.prompt_lookup_max);
}

int NgramDrafter::propose(std::span<const int32_t> token_ids, std::span<int32_t> drafts) {
  const std::span<const int32_t> following = token_ids.subspan(find_continuation(token_ids));
  const size_t count = std::min(following.size(), drafts.size());
  std::copy_n(following.begin(), count, drafts.begin());
  return static_cast<int>(count);
}

/// The place after the best match; the number of tokens if nothing matches. vLLM's NgramProposer
/// chooses the same match.
size_t NgramDrafter::find_continuation(std::span<const int32_t> token_ids) {
  const size_t count = token_ids.size();
  const size_t longest_allowed = borders_.size();
  // Read backwards, the last tokens are a prefix of the text. An earlier occurrence of them is then
  // a match of this prefix that ends at a later place.
  const auto backwards = [&](size_t i) { return token_ids[count - 1 - i]; };
  size_t matched = 0;  // length of the prefix that ends before place i
  size_t longest = 0;
  size_t end_of_longest = 0;
  for (size_t i = 1; i < count; ++i) {
    while (matched > 0 && backwards(matched) != backwards(i)) matched = borders_[matched - 1];
    if (backwards(matched) == backwards(i)) ++matched;
    if (i < longest_allowed) borders_[i] = matched;
    if (matched > 0 && matched >= longest) {
      longest = matched;
      end_of_longest = i;
    }
    if (matched == longest_allowed) matched = borders_[matched - 1];
  }
  if (longest < static_cast<size_t>(lookup_.prompt_lookup_min)) return count;
  return count - 1 - end_of_longest + longest;
}

}  // namespace reprise::speculative
