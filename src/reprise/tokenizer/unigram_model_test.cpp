#include "reprise/tokenizer/unigram_model.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"

namespace reprise::tokenizer {
namespace {

using Allowed = BpeModel::Allowed;
using Ids = std::vector<int32_t>;
using Tokens = std::vector<std::pair<std::string, double>>;

UnigramModel make_model(const Tokens& tokens,
                        bool byte_fallback = false,
                        std::vector<bool> is_control = {}) {
  Vocabulary vocabulary;
  UnigramOptions options{.byte_fallback = byte_fallback};
  for (const auto& [token, score] : tokens) {
    const auto id = static_cast<uint32_t>(options.scores.size());
    EXPECT_EQ(vocabulary.add(token, id), Vocabulary::AddResult::added);
    options.scores.push_back(score);
  }
  return {std::move(vocabulary), std::move(options), std::move(is_control)};
}

Ids encode(const UnigramModel& model,
           std::string_view text,
           Allowed allowed = Allowed::every_token) {
  UnigramModel::Scratch scratch;
  WorkMeter work;
  Ids ids;
  model.encode(text, allowed, scratch, work, ids);
  return ids;
}

TEST(UnigramModel, takes_the_best_sum_of_scores_and_the_first_way_among_equals) {
  const UnigramModel model =
      make_model({{"<unk>", 0}, {"a", -1}, {"b", -1}, {"ab", -3}, {"abc", -2}, {"c", -1.5}});
  EXPECT_EQ(encode(model, ""), Ids{});
  EXPECT_EQ(encode(model, "ab"), (Ids{1, 2}));
  EXPECT_EQ(encode(model, "abc"), Ids{4});
  // "ab" and "a" "b" cost the same. The longer token is found first, because it begins earlier.
  EXPECT_EQ(encode(make_model({{"<unk>", 0}, {"a", -1}, {"b", -1}, {"ab", -2}}), "ab"), Ids{3});
}

TEST(UnigramModel, joins_a_run_of_unknown_characters_in_one_token_or_spells_its_bytes) {
  Tokens tokens = {{"<unk>", 0}, {"a", -1}, {"<0xC3>", 0}, {"<0xA9>", 0}};
  EXPECT_EQ(encode(make_model(tokens), "a\u00e9\u00e9a"), (Ids{1, 0, 1}));
  const UnigramModel spells = make_model(tokens, /*byte_fallback=*/true);
  EXPECT_EQ(encode(spells, "a\u00e9\u00e9a"), (Ids{1, 2, 3, 2, 3, 1}));
  EXPECT_EQ(encode(spells, "\u00e9\u00e8"), Ids{0}) << "one byte of the run has no token";
  // The text "<unk>" itself counts as part of the run.
  EXPECT_EQ(encode(spells, "a<unk>"), (Ids{1, 0}));
  EXPECT_EQ(encode(make_model(tokens), "\u00e9<unk>\u00e9"), Ids{0});
}

TEST(UnigramModel, spells_no_control_token_unless_it_may) {
  const UnigramModel model = make_model({{"<unk>", 0}, {"<s>", 0}, {"<", -1}, {"s", -1}, {">", -1}},
                                        false,
                                        {false, true, false, false, false});
  EXPECT_EQ(encode(model, "<s>"), Ids{1});
  EXPECT_EQ(encode(model, "<s>", Allowed::no_control_tokens), (Ids{2, 3, 4}));
}

// The best sum over all ways to cut the text, found by trying each of them.
double best_score(const std::map<std::string, double, std::less<>>& scores, std::string_view text) {
  if (text.empty()) return 0;
  double best = -1e300;
  for (size_t bytes = 1; bytes <= text.size(); ++bytes) {
    const auto found = scores.find(text.substr(0, bytes));
    if (found == scores.end()) continue;
    best = std::max(best, found->second + best_score(scores, text.substr(bytes)));
  }
  return best;
}

TEST(UnigramModel, no_other_way_has_a_better_score) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    Tokens tokens = {{"?", -30}, {"a", -9}, {"b", -8}, {"c", -7}};
    std::map<std::string, double, std::less<>> scores(tokens.begin(), tokens.end());
    for (int i = 0; i < 30; ++i) {
      std::string token;
      for (unsigned n = 2 + random() % 4; n > 0; --n) token.push_back("abc"[random() % 3]);
      const double score = -static_cast<double>(random() % 1000) / 32;
      if (scores.emplace(token, score).second) tokens.emplace_back(token, score);
    }
    const UnigramModel model = make_model(tokens);
    std::string text;
    for (int i = 0; i < 14; ++i) text.push_back("abc"[random() % 3]);
    double score = 0;
    std::string joined;
    for (const int32_t id : encode(model, text)) {
      score += tokens[static_cast<size_t>(id)].second;
      joined += tokens[static_cast<size_t>(id)].first;
    }
    EXPECT_EQ(joined, text);
    EXPECT_DOUBLE_EQ(score, best_score(scores, text)) << text;
  }
}

TEST(UnigramModel, ends_when_its_work_limit_says_so) {
  const UnigramModel model = make_model({{"<unk>", 0}, {"a", -1}, {std::string(1000, 'a'), -1}});
  const WorkLimit over(WorkLimit::Clock::now(), {}, {});
  WorkMeter work(&over);
  UnigramModel::Scratch scratch;
  Ids ids;
  EXPECT_THROW(model.encode(std::string(5000, 'a'), Allowed::every_token, scratch, work, ids),
               Abandoned);
}

TEST(PieceTrie, finds_the_pieces_that_a_text_begins_with_the_shortest_first) {
  const PieceTrie trie({{"abc", 7}, {"", 8}, {"a", 1}, {"b", 2}, {"abd", 3}, {"\xff", 4}});
  const auto found = [&](std::string_view text) {
    Ids ids;
    trie.for_each_prefix(text, [&](size_t num_bytes, int32_t id) {
      EXPECT_LE(num_bytes, text.size());
      ids.push_back(id);
    });
    return ids;
  };
  EXPECT_EQ(found("abcd"), (Ids{1, 7}));
  EXPECT_EQ(found("abd"), (Ids{1, 3}));
  EXPECT_EQ(found("ab"), Ids{1});
  EXPECT_EQ(found("ca"), Ids{});
  EXPECT_EQ(found(""), Ids{});
  EXPECT_EQ(found("\xff\xff"), Ids{4});
}

}  // namespace
}  // namespace reprise::tokenizer
