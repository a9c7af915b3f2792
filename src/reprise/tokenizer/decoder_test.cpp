#include "reprise/tokenizer/decoder.h"

#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise::tokenizer {
namespace {

using Pieces = std::vector<std::string>;

/// The texts that each push() appends, then the text that finish() appends.
Pieces streamed(std::string_view json, const Pieces& tokens) {
  const Json parsed = parse_json(json, "test");
  const Decoder decoder(Component(parsed, "tokenizer.json", "/decoder"));
  DecodeStream stream(decoder);
  Pieces result;
  for (const std::string& token : tokens) stream.push(token, result.emplace_back());
  stream.finish(result.emplace_back());
  return result;
}

constexpr std::string_view kLlama2 = R"({"type":"Sequence","decoders":[
  {"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},
  {"type":"Strip","content":" ","start":1,"stop":0}]})";

TEST(DecodeStream, holds_a_character_back_until_its_last_byte) {
  EXPECT_EQ(streamed(R"({"type":"ByteLevel"})", {"Ġa", "ðŁ", "ĺ", "Ģ", "!"}),
            (Pieces{" a", "", "", "😀", "!", ""}));
}

TEST(DecodeStream, ends_an_unfinished_character_with_a_replacement) {
  EXPECT_EQ(streamed(R"({"type":"ByteLevel"})", {"a", "ðŁ"}), (Pieces{"a", "", "\uFFFD"}));
  EXPECT_EQ(streamed(R"({"type":"ByteLevel"})", {"ðŁ", "a"}), (Pieces{"", "\uFFFDa", ""}));
}

TEST(DecodeStream, takes_a_token_outside_of_the_alphabet_as_it_is) {
  EXPECT_EQ(streamed(R"({"type":"ByteLevel"})", {"中Ġ", "Ġ"}), (Pieces{"中Ġ", " ", ""}));
}

TEST(DecodeStream, strips_the_first_space_of_the_text_only) {
  EXPECT_EQ(streamed(kLlama2, {"▁a", "▁b"}), (Pieces{"a", " b", ""}));
  EXPECT_EQ(streamed(kLlama2, {"▁", "▁", "a"}), (Pieces{"", " ", "a", ""}));
}

TEST(DecodeStream, joins_a_run_of_byte_pieces_when_it_ends) {
  EXPECT_EQ(streamed(kLlama2, {"x", "<0xC3>", "<0xA9>", "y"}), (Pieces{"x", "", "", "éy", ""}));
  EXPECT_EQ(streamed(kLlama2, {"<0xC3>", "<0xA9>"}), (Pieces{"", "", "é"}));
}

TEST(DecodeStream, replaces_every_byte_of_a_run_that_is_not_utf8) {
  EXPECT_EQ(streamed(kLlama2, {"<0xC3>", "<0xA9>", "<0xFF>", "y"}),
            (Pieces{"", "", "", "\uFFFD\uFFFD\uFFFDy", ""}));
}

TEST(DecodeStream, strips_the_end_of_the_text_by_holding_it_back) {
  constexpr std::string_view kStop = R"({"type":"Sequence","decoders":[{"type":"Fuse"},
    {"type":"Strip","content":"_","start":0,"stop":2}]})";
  EXPECT_EQ(streamed(kStop, {"a_", "_", "_b___", ""}), (Pieces{"a", "", "___b_", "", ""}));
}

TEST(DecodeStream, drops_the_metaspace_of_the_first_token) {
  EXPECT_EQ(streamed(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always"})",
                     {"▁a▁", "▁b"}),
            (Pieces{"a", " b", ""}));
  EXPECT_EQ(
      streamed(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never"})", {"▁a", "▁b"}),
      (Pieces{" a", " b", ""}));
}

TEST(Decoder, refuses_replacements_that_multiply_each_token) {
  const std::string tenfold =
      R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"})";
  const std::string two = tenfold + "," + tenfold;
  EXPECT_EQ(streamed(tenfold, {"a"}).front().size(), 10U);
  EXPECT_THROW((void)streamed(R"({"type":"Sequence","decoders":[)" + two + "]}", {"a"}), FileError);
  EXPECT_THROW((void)streamed(R"({"type":"Replace","pattern":{"Regex":"b*"},"content":")" +
                                  std::string(65, 'a') + R"("})",
                              {"a"}),
               FileError);
}

TEST(DecodeStream, joins_tokens_with_spaces_without_a_decoder) {
  EXPECT_EQ(streamed("null", {"a", "b"}), (Pieces{"a", " b", ""}));
}

TEST(DecodeStream, starts_afresh_after_finish) {
  const Json parsed = parse_json(kLlama2, "test");
  const Decoder decoder(Component(parsed, "tokenizer.json", "/decoder"));
  DecodeStream stream(decoder);
  for (int round = 0; round < 2; ++round) {
    std::string text;
    stream.push("▁a", text);
    stream.finish(text);
    EXPECT_EQ(text, "a");
  }
}

TEST(Decoder, refuses_a_token_step_after_the_tokens_are_one_text) {
  try {
    static_cast<void>(streamed(
        R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteFallback"}]})", {}));
    FAIL() << "no error";
  } catch (const FileError& error) {
    EXPECT_EQ(error.field(), "/decoder/decoders/1/type");
  }
}

}  // namespace
}  // namespace reprise::tokenizer
