#include "reprise/server/openai/logprobs_json.h"

#include <gtest/gtest.h>

#include <limits>

#include "reprise/base/json.h"

namespace reprise::server {
namespace {

using sampling::PositionLogprobs;

// The tokens of this byte-level vocabulary: 0 is "a", 1 is "é" (two bytes), 2 and 3 are its two
// bytes, 4 and 5 are " b".
const tokenizer::Tokenizer& tokens() {
  static const tokenizer::Tokenizer tokenizer = tokenizer::Tokenizer::from_json(R"({
    "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": null, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "Ã©": 1, "Ã": 2, "©": 3, "Ġb": 4, " b": 5}, "merges": []}})");
  return tokenizer;
}

const TokenSpelling kText(tokens(), TokenSpelling::Form::text);
const TokenSpelling kIds(tokens(), TokenSpelling::Form::id);

TEST(LogprobsJson,
     of_a_completion_has_offsets_in_characters_and_no_number_for_the_first_prompt_token) {
  const PositionLogprobs second{.token = {1, -0.5F, 2}, .top = {{0, -0.25F, 1}}};
  const PositionLogprobs third{.token = {4, -1.0F, 1}, .top = {{4, -1.0F, 1}}};
  TextOffset offset;
  EXPECT_EQ(completion_logprobs_json(
                std::vector<ShownToken>{{0, nullptr}, {1, &second}, {4, &third}}, kText, offset),
            parse_json(R"({"text_offset": [0, 1, 2], "token_logprobs": [null, -0.5, -1.0],
                           "tokens": ["a", "é", " b"],
                           "top_logprobs": [null, {"é": -0.5, "a": -0.25}, {" b": -1.0}]})",
                       "test"));
  EXPECT_EQ(offset.characters(), 4);
  const Json more = completion_logprobs_json(std::vector<ShownToken>{{4, &third}}, kIds, offset);
  EXPECT_EQ(more["text_offset"], Json::array({4})) << "goes on where the last chunk ended";
  EXPECT_EQ(more["tokens"], Json::array({"token_id:4"}));
}

TEST(LogprobsJson, of_a_completion_keeps_the_likelier_of_two_tokens_with_one_spelling) {
  // lm_eval takes the entry with the largest value for the greedy token.
  const PositionLogprobs position{.token = {4, -3.0F, 2}, .top = {{5, -0.125F, 1}}};
  TextOffset offset;
  const Json json =
      completion_logprobs_json(std::vector<ShownToken>{{4, &position}}, kText, offset);
  EXPECT_EQ(json["token_logprobs"], Json::array({-3.0}));
  EXPECT_EQ(json["top_logprobs"][0], (Json{{" b", -0.125}}));
}

TEST(LogprobsJson, of_parts_of_a_character_have_their_bytes_and_the_offset_of_the_character) {
  const PositionLogprobs first{.token = {2, -3.0F, 2}, .top = {{3, -0.125F, 1}}};
  const PositionLogprobs second{.token = {3, -1.0F, 1}};
  const PositionLogprobs other{.token = {0, -1.0F, 1}};
  TextOffset offset;
  const std::vector<ShownToken> shown = {{0, &other}, {2, &first}, {3, &second}, {0, &other}};
  const Json json = completion_logprobs_json(shown, kText, offset);
  EXPECT_EQ(json["text_offset"], Json::array({0, 1, 1, 2})) << "of the text aéa";
  EXPECT_EQ(json["tokens"], Json::array({"a", "bytes:\\xc3", "bytes:\\xa9", "a"}));
  EXPECT_EQ(json["top_logprobs"][1], (Json{{"bytes:\\xc3", -3.0}, {"bytes:\\xa9", -0.125}}));
  const Json chat = chat_logprobs_json(std::vector<ShownToken>{{2, &first}}, kText)["content"][0];
  EXPECT_EQ(chat["token"], "\xEF\xBF\xBD");
  EXPECT_EQ(chat["bytes"], Json::array({0xC3}));
  EXPECT_EQ(chat["top_logprobs"][0]["bytes"], Json::array({0xA9}));
}

TEST(LogprobsJson, of_a_chat_has_bytes) {
  const PositionLogprobs position{.token = {1, -0.5F, 2}, .top = {{0, -0.25F, 1}}};
  EXPECT_EQ(chat_logprobs_json(std::vector<ShownToken>{{1, &position}}, kText),
            parse_json(R"({"content": [{"token": "é", "logprob": -0.5, "bytes": [195, 169],
                            "top_logprobs": [{"token": "a", "logprob": -0.25, "bytes": [97]}]}]})",
                       "test"));
}

TEST(LogprobsJson, of_a_prompt_is_keyed_by_id) {
  const PositionLogprobs position{.token = {4, -2.0F, 3}, .top = {{0, -0.25F, 1}, {1, -1.0F, 2}}};
  EXPECT_EQ(prompt_logprobs_json(std::vector{position}, kText),
            parse_json(R"([null, {"4": {"logprob": -2.0, "rank": 3, "decoded_token": " b"},
                                  "0": {"logprob": -0.25, "rank": 1, "decoded_token": "a"},
                                  "1": {"logprob": -1.0, "rank": 2, "decoded_token": "é"}}])",
                       "test"));
}

TEST(LogprobsJson, never_says_infinity_or_nan) {
  for (float value : {-std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::quiet_NaN(),
                      -20000.0F}) {
    const PositionLogprobs position{.token = {0, value, 1}};
    TextOffset offset;
    EXPECT_EQ(completion_logprobs_json(
                  std::vector<ShownToken>{{0, &position}}, kText, offset)["token_logprobs"][0],
              -9999.0);
  }
}

}  // namespace
}  // namespace reprise::server
