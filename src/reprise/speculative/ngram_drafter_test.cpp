#include "reprise/speculative/ngram_drafter.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace reprise::speculative {
namespace {

using Tokens = std::vector<int32_t>;

Tokens propose(const NgramLookup& lookup, const Tokens& tokens, int most) {
  NgramDrafter drafter(lookup);
  Tokens drafts(static_cast<size_t>(most));
  drafts.resize(static_cast<size_t>(drafter.propose(tokens, drafts)));
  return drafts;
}

/// The same search, done separately at each place.
Tokens propose_ref(const NgramLookup& lookup, const Tokens& tokens, int most) {
  const auto count = static_cast<int>(tokens.size());
  for (int length = std::min(lookup.prompt_lookup_max, count - 1);
       length >= lookup.prompt_lookup_min;
       --length) {
    for (int begin = 0; begin + length < count; ++begin) {
      if (!std::equal(tokens.end() - length, tokens.end(), tokens.begin() + begin)) continue;
      const int end = std::min(count, begin + length + most);
      return {tokens.begin() + begin + length, tokens.begin() + end};
    }
  }
  return {};
}

TEST(NgramDrafter, proposes_what_followed_the_last_tokens_before) {
  const NgramLookup lookup{.prompt_lookup_min = 2, .prompt_lookup_max = 3};
  EXPECT_EQ(propose(lookup, {1, 2, 3, 4, 5, 9, 2, 3}, 2), (Tokens{4, 5}));
  EXPECT_EQ(propose(lookup, {1, 2, 3, 4, 5, 9, 2, 3}, 1), (Tokens{4}));
  EXPECT_EQ(propose(lookup, {1, 2, 3, 4, 5, 9, 2, 3}, 9), (Tokens{4, 5, 9, 2, 3}));
}

TEST(NgramDrafter, proposes_nothing_without_a_match_that_is_long_enough) {
  EXPECT_EQ(propose({.prompt_lookup_min = 3, .prompt_lookup_max = 4}, {1, 2, 3, 9, 2, 3}, 4),
            Tokens{});
  for (const Tokens& few : {Tokens{}, Tokens{1}, Tokens{1, 2}}) {
    EXPECT_EQ(propose({.prompt_lookup_min = 1, .prompt_lookup_max = 2}, few, 4), Tokens{});
  }
}

TEST(NgramDrafter, prefers_the_longest_match_and_then_the_first) {
  const NgramLookup lookup{.prompt_lookup_min = 1, .prompt_lookup_max = 3};
  EXPECT_EQ(propose(lookup, {3, 7, 2, 3, 8, 1, 2, 3, 5, 1, 2, 3}, 1), (Tokens{5})) << "three";
  EXPECT_EQ(propose(lookup, {2, 3, 8, 9, 2, 3, 7, 9, 4, 2, 3}, 1), (Tokens{8})) << "first of two";
  EXPECT_EQ(propose(lookup, {4, 4, 4, 4, 4}, 3), (Tokens{4, 4})) << "the first match of three";
}

TEST(NgramDrafter, finds_what_a_simple_search_finds) {
  std::mt19937 random(3);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  int num_proposals = 0;
  for (int round = 0; round < 20'000; ++round) {
    const int min = 1 + below(4);
    const NgramLookup lookup{.prompt_lookup_min = min, .prompt_lookup_max = min + below(4)};
    Tokens tokens(static_cast<size_t>(below(40)));
    const int num_kinds = 1 + below(4);
    for (int32_t& token : tokens) token = below(num_kinds);
    const int most = 1 + below(8);
    const Tokens expected = propose_ref(lookup, tokens, most);
    ASSERT_EQ(propose(lookup, tokens, most), expected) << "round " << round;
    num_proposals += static_cast<int>(!expected.empty());
  }
  EXPECT_GT(num_proposals, 5'000);
}

TEST(NgramDrafter, a_drafter_may_be_used_for_many_requests) {
  NgramDrafter drafter({.prompt_lookup_min = 2, .prompt_lookup_max = 4});
  std::mt19937 random(5);
  for (int round = 0; round < 1'000; ++round) {
    Tokens tokens(static_cast<size_t>(round % 50));
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 3);
    Tokens drafts(3);
    drafts.resize(static_cast<size_t>(drafter.propose(tokens, drafts)));
    ASSERT_EQ(drafts, propose_ref({.prompt_lookup_min = 2, .prompt_lookup_max = 4}, tokens, 3));
  }
}

}  // namespace
}  // namespace reprise::speculative
