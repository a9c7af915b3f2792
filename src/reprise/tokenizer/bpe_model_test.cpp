#include "reprise/tokenizer/bpe_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace reprise::tokenizer {
namespace {

using Allowed = BpeModel::Allowed;
using Ids = std::vector<int32_t>;

struct Merge {
  std::string left;
  std::string right;
};

BpeModel make_model(const std::vector<std::string>& tokens,
                    const std::vector<Merge>& merges,
                    const BpeOptions& options = {},
                    std::vector<bool> is_control = {}) {
  Vocabulary vocabulary;
  for (uint32_t id = 0; id < tokens.size(); ++id) {
    EXPECT_EQ(vocabulary.add(tokens[id], id), Vocabulary::AddResult::added);
  }
  MergeTable table;
  const auto id_of = [&](const std::string& token) {
    return static_cast<uint32_t>(*vocabulary.find(token));
  };
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    table.set(id_of(left), id_of(right), {rank, id_of(left + right)});
  }
  return {std::move(vocabulary), std::move(table), options, std::move(is_control)};
}

Ids encode(const BpeModel& model, std::string_view piece, Allowed allowed = Allowed::every_token) {
  BpeModel::Scratch scratch;
  Ids ids;
  model.encode(piece, allowed, scratch, ids);
  return ids;
}

TEST(BpeModel, merges_by_rank_and_then_from_the_left) {
  const BpeModel model =
      make_model({"a", "b", "c", "ab", "bc", "abc"}, {{"b", "c"}, {"a", "b"}, {"ab", "c"}});
  EXPECT_EQ(encode(model, "abc"), (Ids{0, 4}));
  EXPECT_EQ(encode(model, "abab"), (Ids{3, 3}));
  const BpeModel pairs = make_model({"a", "aa"}, {{"a", "a"}});
  EXPECT_EQ(encode(pairs, "aaaaa"), (Ids{1, 1, 0}));
}

TEST(BpeModel, takes_a_whole_piece_from_the_vocabulary_when_merges_are_ignored) {
  const std::vector<std::string> tokens = {"a", "b", "ab"};
  EXPECT_EQ(encode(make_model(tokens, {}), "ab"), (Ids{0, 1}));
  EXPECT_EQ(encode(make_model(tokens, {}, {.ignore_merges = true}), "ab"), (Ids{2}));
}

TEST(BpeModel, spells_unknown_characters_in_bytes_or_as_unknown_or_drops_them) {
  const std::vector<std::string> tokens = {"<unk>", "a", "<0xC3>", "<0xA9>"};
  EXPECT_EQ(encode(make_model(tokens, {}), "aéa"), (Ids{1, 1}));
  EXPECT_EQ(encode(make_model(tokens, {}, {.unknown_id = 0}), "aééa"), (Ids{1, 0, 0, 1}));
  EXPECT_EQ(encode(make_model(tokens, {}, {.unknown_id = 0, .fuse_unknown = true}), "aééa"),
            (Ids{1, 0, 1}));
  const BpeOptions bytes{.unknown_id = 0, .byte_fallback = true};
  EXPECT_EQ(encode(make_model(tokens, {}, bytes), "aéa"), (Ids{1, 2, 3, 1}));
  EXPECT_EQ(encode(make_model(tokens, {}, bytes), "中"),
            (Ids{0}));  // not all of its bytes have tokens
}

TEST(BpeModel, never_reaches_a_control_token_when_they_are_kept_out) {
  const std::vector<std::string> tokens = {"<", "s", ">", "<s", "<s>", "$"};
  const std::vector<Merge> merges = {{"<", "s"}, {"<s", ">"}};
  const std::vector<bool> is_control = {false, false, false, false, true, true};
  for (const bool ignore_merges : {false, true}) {
    const BpeModel model = make_model(tokens, merges, {.ignore_merges = ignore_merges}, is_control);
    EXPECT_EQ(encode(model, "<s>"), (Ids{4}));
    EXPECT_EQ(encode(model, "<s>", Allowed::no_control_tokens), (Ids{3, 2}));
    EXPECT_EQ(encode(model, "$", Allowed::no_control_tokens), (Ids{}));
  }
}

TEST(BpeModel, does_work_in_proportion_to_the_length_of_one_piece) {
  std::vector<std::string> tokens = {"a", "b", "ab"};
  std::vector<Merge> merges = {{"a", "b"}};
  for (size_t length = 1; length < 64; length *= 2) {
    tokens.push_back(std::string(length * 2, 'a'));
    merges.push_back({std::string(length, 'a'), std::string(length, 'a')});
  }
  const BpeModel model = make_model(tokens, merges);
  for (const std::string unit : {"a", "ab", "aab"}) {
    uint64_t previous = 0;
    for (size_t repeats = 10'000; repeats <= 320'000; repeats *= 2) {
      std::string text;
      for (size_t i = 0; i < repeats; ++i) text += unit;
      BpeModel::Scratch scratch;
      Ids ids;
      model.encode(text, Allowed::every_token, scratch, ids);
      EXPECT_LT(scratch.num_merges_tried(), 3 * text.size());
      if (previous > 0) {
        EXPECT_LT(scratch.num_merges_tried(), previous * 21 / 10);
      }
      previous = scratch.num_merges_tried();
    }
  }
}

TEST(Vocabulary, refuses_repeated_and_far_ids) {
  Vocabulary vocabulary;
  using Result = Vocabulary::AddResult;
  EXPECT_EQ(vocabulary.add("a", 7), Result::added);
  EXPECT_EQ(vocabulary.add("a", 8), Result::repeated_token);
  EXPECT_EQ(vocabulary.add("b", 7), Result::repeated_id);
  EXPECT_EQ(vocabulary.add("b", Vocabulary::kMaxId), Result::id_out_of_range);
  EXPECT_EQ(vocabulary.add("b", Vocabulary::kMaxSparseId + 100), Result::id_out_of_range);
  EXPECT_EQ(vocabulary.size(), 1u);
  EXPECT_EQ(vocabulary.end_id(), 8);
  EXPECT_EQ(vocabulary.find("b"), std::nullopt);
  EXPECT_EQ(vocabulary.token(3), std::nullopt);
  EXPECT_EQ(vocabulary.token(-1), std::nullopt);
}

TEST(Vocabulary, grows_without_losing_a_token) {
  Vocabulary vocabulary;
  for (uint32_t id = 0; id < 5000; ++id) {
    ASSERT_EQ(vocabulary.add(fmt::format("t{}", id), id), Vocabulary::AddResult::added);
  }
  for (int32_t id = 0; id < 5000; ++id) ASSERT_EQ(vocabulary.find(fmt::format("t{}", id)), id);
}

}  // namespace
}  // namespace reprise::tokenizer
