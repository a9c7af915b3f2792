#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/speculative/drafter.h"

namespace reprise::speculative {

/// The lengths of the n-grams that an NgramDrafter looks up. Names and meaning are vLLM's.
struct NgramLookup {
  int prompt_lookup_min = 5;  // >= 1
  int prompt_lookup_max = 5;  // >= prompt_lookup_min

  friend bool operator==(const NgramLookup&, const NgramLookup&) = default;
};

/// Finds an earlier place in the request's own tokens that has the same last tokens, and proposes
/// the tokens after that place. The longest match of prompt_lookup_min to prompt_lookup_max tokens
/// wins. Among equally long matches the first one wins, because more tokens follow it.
///
/// One call reads each token once or twice (Knuth-Morris-Pratt), and allocates nothing.
class NgramDrafter final : public TokenDrafter {
 public:
  explicit NgramDrafter(const NgramLookup& lookup);

  [[nodiscard]] int propose(std::span<const int32_t> token_ids, std::span<int32_t> drafts) override;

 private:
  [[nodiscard]] size_t find_continuation(std::span<const int32_t> token_ids);

  NgramLookup lookup_;
  /// borders_[i]: the longest proper border of the last i + 1 tokens, read backwards.
  std::vector<size_t> borders_;
};

}  // namespace reprise::speculative
