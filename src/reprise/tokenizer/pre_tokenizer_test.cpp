#include "reprise/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise::tokenizer {
namespace {

std::vector<std::string> pieces(std::string_view json,
                                std::string_view text,
                                bool begins_input = true) {
  const Json parsed = parse_json(json, "test");
  PieceList list;
  list.text = text;
  list.pieces.push_back({0, text.size(), begins_input});
  WorkMeter no_limit;
  PreTokenizer(Component(parsed, "tokenizer.json", "/pre_tokenizer")).apply(list, no_limit);
  std::vector<std::string> result;
  for (const auto& piece : list.pieces) result.emplace_back(list.view(piece));
  return result;
}

std::vector<std::string> split(std::string_view behavior, std::string_view invert = "false") {
  return pieces(R"({"type":"Split","pattern":{"String":"-"},"behavior":")" + std::string(behavior) +
                    R"(","invert":)" + std::string(invert) + "}",
                "the-final--countdown");
}

using Pieces = std::vector<std::string>;

TEST(PreTokenizer, splits_by_each_behavior) {
  EXPECT_EQ(split("Removed"), (Pieces{"the", "final", "countdown"}));
  EXPECT_EQ(split("Isolated"), (Pieces{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split("MergedWithPrevious"), (Pieces{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split("MergedWithNext"), (Pieces{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split("Contiguous"), (Pieces{"the", "-", "final", "--", "countdown"}));
}

TEST(PreTokenizer, inverts_what_counts_as_a_match) {
  EXPECT_EQ(split("Removed", "true"), (Pieces{"-", "-", "-"}));
}

TEST(PreTokenizer, puts_the_metaspace_first_only_where_the_input_begins) {
  constexpr std::string_view kFirst =
      R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true})";
  EXPECT_EQ(pieces(kFirst, "a b"), (Pieces{"▁a", "▁b"}));
  EXPECT_EQ(pieces(kFirst, "a b", false), (Pieces{"a", "▁b"}));
}

TEST(PreTokenizer, reads_the_older_spelling_of_the_metaspace) {
  EXPECT_EQ(pieces(R"({"type":"Metaspace","replacement":"▁","add_prefix_space":false})", "a b"),
            (Pieces{"a", "▁b"}));
  EXPECT_EQ(pieces(R"({"type":"Metaspace","replacement":"▁","add_prefix_space":true})", "a b"),
            (Pieces{"▁a", "▁b"}));
}

TEST(PreTokenizer, writes_bytes_as_letters) {
  EXPECT_EQ(pieces(R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":true})", "é isn't\n"),
            (Pieces{"ĠÃ©", "Ġisn", "'t", "Ċ"}));
}

/// Tests every kind of step: a text whose result is no longer wanted must not be read to its end.
TEST(PreTokenizer, ends_early_when_nobody_waits_for_the_result) {
  std::stop_source process;
  process.request_stop();
  const WorkLimit ending(WorkLimit::Clock::time_point::max(), {}, process.get_token());
  for (const char* json : {R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})",
                           R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})",
                           R"({"type":"Digits","individual_digits":true})",
                           R"({"type":"Punctuation"})",
                           R"({"type":"WhitespaceSplit"})",
                           R"({"type":"Metaspace","replacement":"_"})"}) {
    const Json parsed = parse_json(json, "test");
    PieceList list;
    list.text = std::string(100'000, '1');
    list.pieces.push_back({0, list.text.size(), true});
    WorkMeter work(&ending);
    const PreTokenizer pre_tokenizer(Component(parsed, "tokenizer.json", "/pre_tokenizer"));
    EXPECT_THROW(pre_tokenizer.apply(list, work), Abandoned) << json;
  }
}

TEST(PreTokenizer, names_the_type_and_place_it_does_not_know) {
  try {
    static_cast<void>(pieces(
        R"({"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"ByteLevl"}]})", "a"));
    FAIL() << "no error";
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), "E_TOKENIZER");
    EXPECT_EQ(error.field(), "/pre_tokenizer/pretokenizers/1/type");
    EXPECT_NE(std::string(error.what()).find("did you mean 'ByteLevel'"), std::string::npos);
  }
}

}  // namespace
}  // namespace reprise::tokenizer
