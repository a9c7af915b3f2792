#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "reprise/speculative/drafter.h"

namespace reprise::testing {

/// The continuation of `token_ids` in the first text that begins with them; empty if there is none.
inline std::span<const int32_t> continuation(const std::vector<std::vector<int32_t>>& known,
                                             std::span<const int32_t> token_ids) {
  for (const std::vector<int32_t>& tokens : known) {
    if (tokens.size() > token_ids.size() &&
        std::ranges::equal(std::span(tokens).first(token_ids.size()), token_ids)) {
      return std::span(tokens).subspan(token_ids.size());
    }
  }
  return {};
}

/// Knows the answers, and proposes their tokens with some errors and in different numbers.
class KnowingDrafter final : public speculative::TokenDrafter {
 public:
  /// `known`: prompts with their answers.
  explicit KnowingDrafter(std::vector<std::vector<int32_t>> known) : known_(std::move(known)) {}

  int propose(std::span<const int32_t> token_ids, std::span<int32_t> drafts) override {
    if (random_() % 8 == 0) return 0;
    const std::span<const int32_t> next = continuation(known_, token_ids);
    if (next.empty()) return 0;
    size_t count = std::min(next.size(), drafts.size());
    if (random_() % 4 == 0) count = random_() % (count + 1);
    std::ranges::copy(next.first(count), drafts.begin());
    if (count > 0 && random_() % 3 == 0) drafts[random_() % count] = 5;
    return static_cast<int>(count);
  }

 private:
  std::vector<std::vector<int32_t>> known_;
  std::mt19937 random_{11};
};

/// Knows the answers. Proposes num_drafts tokens, of which the first num_right are right and the
/// others wrong.
class PatternDrafter final : public speculative::TokenDrafter {
 public:
  /// `known`: prompts with their answers.
  explicit PatternDrafter(std::vector<std::vector<int32_t>> known) : known_(std::move(known)) {}

  int propose(std::span<const int32_t> token_ids, std::span<int32_t> drafts) override {
    const std::span<const int32_t> next = continuation(known_, token_ids);
    const size_t count = std::min({next.size(), drafts.size(), num_drafts});
    for (size_t i = 0; i < count; ++i) drafts[i] = i < num_right ? next[i] : (next[i] + 1) % 1024;
    return static_cast<int>(count);
  }

  size_t num_drafts = 0;
  size_t num_right = std::numeric_limits<size_t>::max();

 private:
  std::vector<std::vector<int32_t>> known_;
};

}  // namespace reprise::testing
