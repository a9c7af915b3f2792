#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "reprise/speculative/drafter.h"

namespace reprise::testing {

/// Knows the answers, and proposes their tokens with some errors and in different numbers.
class KnowingDrafter final : public speculative::TokenDrafter {
 public:
  /// `known`: prompts with their answers.
  explicit KnowingDrafter(std::vector<std::vector<int32_t>> known) : known_(std::move(known)) {}

  int propose(std::span<const int32_t> token_ids, std::span<int32_t> drafts) override {
    if (random_() % 8 == 0) return 0;
    for (const std::vector<int32_t>& tokens : known_) {
      if (tokens.size() <= token_ids.size() ||
          !std::ranges::equal(std::span(tokens).first(token_ids.size()), token_ids)) {
        continue;
      }
      const auto next = std::span(tokens).subspan(token_ids.size());
      size_t count = std::min(next.size(), drafts.size());
      if (random_() % 4 == 0) count = random_() % (count + 1);
      std::ranges::copy(next.first(count), drafts.begin());
      if (count > 0 && random_() % 3 == 0) drafts[random_() % count] = 5;
      return static_cast<int>(count);
    }
    return 0;
  }

 private:
  std::vector<std::vector<int32_t>> known_;
  std::mt19937 random_{11};
};

}  // namespace reprise::testing
