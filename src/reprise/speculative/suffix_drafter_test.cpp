#include "reprise/speculative/suffix_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reprise::speculative {
namespace {

using SuffixTokens = std::vector<int32_t>;

struct Expected {
  SuffixTokens drafts;
  double score = 0;
};

bool ends_with(const SuffixTokens& text, size_t end, const SuffixTokens& suffix) {
  return end >= suffix.size() &&
         std::ranges::equal(suffix, std::span(text).subspan(end - suffix.size(), suffix.size()));
}

/// The definition, without an index: counts the tokens that follow each suffix in all texts.
Expected propose_by_counting(const std::vector<SuffixTokens>& texts,
                             const SuffixTokens& tokens,
                             size_t room,
                             const SuffixOptions& options) {
  Expected best;
  const int longest = std::min(options.max_tree_depth - 1, static_cast<int>(tokens.size()));
  for (int length = longest; length >= 2; --length) {
    const SuffixTokens suffix(tokens.end() - length, tokens.end());
    struct Place {
      const SuffixTokens* text;
      size_t next;
    };
    std::vector<Place> places;
    for (size_t i = texts.size(); i-- > 0;) {  // the latest first
      for (size_t end = texts[i].size() - 1; end >= 1; --end) {
        if (ends_with(texts[i], end, suffix)) places.push_back({&texts[i], end});
      }
    }
    const int most = std::min({static_cast<int>(room),
                               options.max_tree_depth - length,
                               static_cast<int>(std::floor(length * options.max_spec_factor))});
    Expected candidate;
    double probability = 1;
    while (std::cmp_less(candidate.drafts.size(), most)) {
      std::vector<std::pair<int32_t, int>> counts;  // in the order of the places
      for (const Place& place : places) {
        if (place.next >= place.text->size()) continue;
        const int32_t token = (*place.text)[place.next];
        const auto found = std::ranges::find(counts, token, &std::pair<int32_t, int>::first);
        found == counts.end() ? counts.emplace_back(token, 1), 0 : ++found->second;
      }
      if (counts.empty()) break;
      const auto next = std::ranges::max_element(counts, {}, &std::pair<int32_t, int>::second);
      probability *= next->second / static_cast<double>(places.size());
      if (probability < options.min_token_prob) break;
      candidate.score += probability;
      candidate.drafts.push_back(next->first);
      const int32_t token = next->first;
      std::erase_if(places, [&](Place& place) {
        if (place.next >= place.text->size() || (*place.text)[place.next] != token) return true;
        ++place.next;
        return false;
      });
    }
    if (candidate.score > best.score) best = candidate;
  }
  return best;
}

SuffixTokens random_text(std::mt19937& random, int most_tokens, int32_t vocab_size) {
  SuffixTokens text;
  for (int i = 2 + static_cast<int>(random() % most_tokens); i > 0; --i) {
    text.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab_size)));
  }
  return text;
}

SuffixOptions random_options(std::mt19937& random) {
  return {.max_tree_depth = 1 + static_cast<int>(random() % 12),
          .max_spec_factor = 0.5 * static_cast<double>(random() % 6),
          .min_token_prob = 0.1 * static_cast<double>(random() % 8)};
}

TEST(SuffixIndex, proposes_what_counting_gives) {
  std::mt19937 random(1);
  int num_proposals = 0;
  for (int round = 0; round < 3'000; ++round) {
    const auto vocab_size = 2 + static_cast<int32_t>(random() % 4);
    std::vector<SuffixTokens> texts;
    SuffixIndex index(200);
    for (int i = 0; i < 3; ++i) {
      texts.push_back(random_text(random, 18, vocab_size));
      index.append(texts.back());
      index.append(SuffixIndex::kSeparator);
    }
    const SuffixTokens tokens = random_text(random, 10, vocab_size);
    const SuffixOptions options = random_options(random);
    SuffixTokens drafts(1 + random() % 8);
    const SuffixIndex::Proposal proposal = index.propose(tokens, drafts, options);
    const Expected expected = propose_by_counting(texts, tokens, drafts.size(), options);
    drafts.resize(static_cast<size_t>(proposal.num_drafts));
    ASSERT_EQ(drafts, expected.drafts) << "round " << round;
    ASSERT_DOUBLE_EQ(proposal.score, expected.score);
    num_proposals += static_cast<int>(!drafts.empty());
  }
  EXPECT_GT(num_proposals, 500);
}

TEST(SuffixIndex, forgets_what_falls_out_of_its_ring) {
  std::mt19937 random(2);
  for (const size_t capacity : {1U, 2U, 3U, 7U, 64U}) {
    SuffixIndex index(capacity);
    SuffixTokens all;
    for (int i = 0; i < 400; ++i) {
      all.push_back(static_cast<int32_t>(random() % 3));
      index.append(all.back());
      if (i % 50 == 49) index.forget_before(index.end() - std::min<uint64_t>(index.end(), 3));
      const SuffixTokens kept(all.begin() + static_cast<ptrdiff_t>(index.begin()), all.end());
      ASSERT_LE(kept.size(), capacity);
      SuffixTokens drafts(3);
      const SuffixIndex::Proposal proposal = index.propose(all, drafts, {});
      drafts.resize(static_cast<size_t>(proposal.num_drafts));
      // A text of one token has no places, and the reference needs two tokens.
      const Expected expected =
          kept.size() < 2 ? Expected{} : propose_by_counting({kept}, all, 3, {});
      ASSERT_EQ(drafts, expected.drafts) << "capacity " << capacity << ", token " << i;
    }
  }
}

/// Asks for drafts of one request.
SuffixTokens propose(SuffixDrafter& drafter,
                     uint64_t id,
                     const SuffixTokens& tokens,
                     size_t room = 4,
                     std::string_view salt = {}) {
  SuffixTokens memory = tokens;
  memory.resize(tokens.size() + room);
  DraftRequest request{.request_id = id,
                       .cache_salt = salt,
                       .token_ids = std::span(memory).first(tokens.size()),
                       .drafts = std::span(memory).subspan(tokens.size())};
  drafter.propose_all({&request, 1});
  return {request.drafts.begin(), request.drafts.begin() + request.num_drafts};
}

TEST(SuffixDrafter, finds_what_followed_in_the_prompt_and_in_earlier_answers) {
  SuffixDrafter drafter({});
  EXPECT_EQ(propose(drafter, 1, {5, 6, 7, 8, 9, 5, 6, 7}), (SuffixTokens{8, 9, 5}));
  EXPECT_EQ(propose(drafter, 2, {20, 21, 22}), SuffixTokens{});
  drafter.end_request(
      {.request_id = 3, .output_token_ids = SuffixTokens{20, 21, 22, 23, 24, 25, 26}});
  EXPECT_EQ(propose(drafter, 2, {20, 21, 22}), (SuffixTokens{23, 24, 25}));
  EXPECT_EQ(propose(drafter, 4, {1, 20, 21}), (SuffixTokens{22, 23}))
      << "two drafts for two matched tokens";
  // The better source wins.
  EXPECT_EQ(propose(drafter, 5, {21, 22, 30, 9, 20, 21, 22}), (SuffixTokens{23, 24, 25}));
}

TEST(SuffixDrafter, follows_a_growing_request) {
  std::mt19937 random(3);
  SuffixDrafter drafter({});
  SuffixTokens tokens = random_text(random, 20, 4);
  for (int step = 0; step < 300; ++step) {
    const SuffixTokens text = tokens;
    const Expected expected = propose_by_counting({text}, text, 4, {});
    if (text.size() < 60) {  // after that, a look-up does not see every place
      ASSERT_EQ(propose(drafter, 1, tokens), expected.drafts) << step;
    } else {
      (void)propose(drafter, 1, tokens);
    }
    for (int i = 1 + static_cast<int>(random() % 4); i > 0; --i) {
      tokens.push_back(static_cast<int32_t>(random() % 4));
    }
  }
  EXPECT_EQ(drafter.num_requests(), 1U);
  drafter.end_request({.request_id = 1});
  EXPECT_EQ(drafter.num_requests(), 0U);
}

TEST(SuffixDrafter, keeps_the_last_answers_only) {
  SuffixDrafter drafter({.max_cached_requests = 2});
  for (int32_t i = 0; i < 3; ++i) {
    drafter.end_request(
        {.request_id = static_cast<uint64_t>(i),
         .output_token_ids = SuffixTokens{10 * i, 10 * i + 1, 10 * i + 2, 10 * i + 3}});
  }
  EXPECT_EQ(drafter.num_cached_requests(), 2U);
  EXPECT_EQ(propose(drafter, 7, {0, 1}), SuffixTokens{});
  EXPECT_EQ(propose(drafter, 8, {10, 11}), (SuffixTokens{12, 13}));
  SuffixDrafter few_tokens({}, /*most_cached_tokens=*/8);
  for (uint64_t i = 0; i < 5; ++i) {
    few_tokens.end_request({.request_id = i, .output_token_ids = SuffixTokens{1, 2, 3, 4, 5}});
    EXPECT_EQ(few_tokens.num_cached_requests(), 1U);
    EXPECT_EQ(propose(few_tokens, 9, {1, 2}), (SuffixTokens{3, 4}));
    few_tokens.end_request({.request_id = 100 + i, .output_token_ids = SuffixTokens(50, 6)});
  }
  SuffixDrafter none({.max_cached_requests = 0});
  none.end_request({.request_id = 1, .output_token_ids = SuffixTokens{1, 2, 3, 4, 5}});
  EXPECT_EQ(propose(none, 9, {1, 2}), SuffixTokens{});
}

TEST(SuffixDrafter, keeps_requests_with_a_salt_apart) {
  SuffixDrafter drafter({});
  const SuffixTokens answer = {1, 2, 3, 4, 5};
  drafter.end_request({.request_id = 1, .cache_salt = "mine", .output_token_ids = answer});
  EXPECT_EQ(propose(drafter, 2, {1, 2}), SuffixTokens{});
  EXPECT_EQ(propose(drafter, 3, {1, 2}, 4, "mine"), SuffixTokens{});
  drafter.end_request({.request_id = 4, .output_token_ids = answer});
  EXPECT_EQ(propose(drafter, 5, {1, 2}), (SuffixTokens{3, 4}));
  EXPECT_EQ(propose(drafter, 6, {1, 2}, 4, "mine"), SuffixTokens{});
}

}  // namespace
}  // namespace reprise::speculative
