#include "reprise/speculative/speculative_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise::speculative {
namespace {

SpeculativeConfig parse(const char* text) {
  return parse_speculative_config(parse_json(text, "test"));
}

std::string refusal(const char* text) {
  try {
    (void)parse(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SpeculativeConfig, reads_the_keys_of_vllm) {
  const SpeculativeConfig config = parse(
      R"({"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2,
          "prompt_lookup_max": 6})");
  EXPECT_EQ(config.method, SpeculativeMethod::ngram);
  EXPECT_EQ(config.num_speculative_tokens, 4);
  EXPECT_EQ(config.lookup, (NgramLookup{.prompt_lookup_min = 2, .prompt_lookup_max = 6}));
}

TEST(SpeculativeConfig, one_length_stands_for_the_other_and_both_have_the_default_of_vllm) {
  const auto lookup = [](const std::string& more) {
    return parse((R"({"method": "ngram", "num_speculative_tokens": 1)" + more + "}").c_str())
        .lookup;
  };
  EXPECT_EQ(lookup(""), (NgramLookup{.prompt_lookup_min = 5, .prompt_lookup_max = 5}));
  EXPECT_EQ(lookup(R"(, "prompt_lookup_min": 3)"),
            (NgramLookup{.prompt_lookup_min = 3, .prompt_lookup_max = 3}));
  EXPECT_EQ(lookup(R"(, "prompt_lookup_max": 7, "prompt_lookup_min": null)"),
            (NgramLookup{.prompt_lookup_min = 7, .prompt_lookup_max = 7}));
}

TEST(SpeculativeConfig, names_what_it_refuses) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal("3"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal(R"({"num_speculative_tokens": 2})"), HasSubstr("'method' is missing"));
  EXPECT_THAT(refusal(R"({"method": "eagle3", "num_speculative_tokens": 2})"),
              HasSubstr("method \"eagle3\" is not supported"));
  EXPECT_THAT(refusal(R"({"method": 1})"), HasSubstr("method 1 is not supported"));
  EXPECT_THAT(refusal(R"({"method": "ngram"})"), HasSubstr("'num_speculative_tokens' is missing"));
  EXPECT_THAT(refusal(R"({"method": "ngram", "model": "x"})"),
              HasSubstr("'model' is not supported"));
  EXPECT_THAT(refusal(R"({"method": "ngram", "prompt_lookup_mux": 3})"),
              HasSubstr("did you mean 'prompt_lookup_max'?"));
  EXPECT_THAT(refusal(R"({"method": "ngram", "num_speculative_tokens": 2,
                          "prompt_lookup_min": 4, "prompt_lookup_max": 3})"),
              HasSubstr("prompt_lookup_min 4 is larger than prompt_lookup_max 3"));
}

TEST(SpeculativeConfig, refuses_counts_outside_of_their_range) {
  for (const char* count :
       {"0", "-1", "65", "1e9", "99999999999999999999", "2.5", "true", "\"4\"", "[]", "null"}) {
    const std::string text =
        std::string(R"({"method": "ngram", "num_speculative_tokens": )") + count + "}";
    EXPECT_THAT(refusal(text.c_str()), ::testing::HasSubstr("num_speculative_tokens")) << count;
  }
  EXPECT_EQ(parse(R"({"method": "ngram", "num_speculative_tokens": 64})").num_speculative_tokens,
            kMostSpeculativeTokens);
}

}  // namespace
}  // namespace reprise::speculative
