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
  EXPECT_THAT(refusal(R"({"method": "medusa", "num_speculative_tokens": 2})"),
              HasSubstr("method \"medusa\" is not supported"));
  EXPECT_THAT(refusal(R"({"method": 1})"), HasSubstr("method 1 is not supported"));
  EXPECT_THAT(refusal(R"({"method": "ngram"})"), HasSubstr("'num_speculative_tokens' is missing"));
  EXPECT_THAT(
      refusal(R"({"method": "ngram", "model": "x"})"),
      HasSubstr("'model' belongs to method draft_model, eagle, eagle3; method ngram takes"));
  EXPECT_THAT(refusal(R"({"method": "ngram", "prompt_lookup_mux": 3})"),
              HasSubstr("did you mean 'prompt_lookup_max'?"));
  EXPECT_THAT(refusal(R"({"method": "ngram", "num_speculative_tokens": 2,
                          "prompt_lookup_min": 4, "prompt_lookup_max": 3})"),
              HasSubstr("prompt_lookup_min 4 is larger than prompt_lookup_max 3"));
}

TEST(SpeculativeConfig, reads_the_keys_of_a_draft_model) {
  const SpeculativeConfig config = parse(
      R"({"model": "some/folder", "num_speculative_tokens": 3, "max_model_len": 100,
          "quantization": "int8", "enforce_eager": true, "draft_sample_method": "probabilistic"})");
  EXPECT_EQ(config.method, SpeculativeMethod::draft_model) << "a model names the method";
  EXPECT_EQ(config.draft_model,
            (DraftModelOptions{.model = "some/folder",
                               .max_model_len = 100,
                               .quantization = "int8",
                               .enforce_eager = true,
                               .sample_method = DraftSampleMethod::probabilistic}));
  EXPECT_EQ(parse(R"({"method": "draft_model", "model": "x", "num_speculative_tokens": 1,
                      "max_model_len": null, "draft_sample_method": "greedy"})")
                .draft_model,
            (DraftModelOptions{.model = "x"}));
}

TEST(SpeculativeConfig, reads_the_keys_of_draft_heads) {
  const SpeculativeConfig eagle3 = parse(
      R"({"method": "eagle3", "model": "head", "num_speculative_tokens": 3, "max_model_len": 100,
          "quantization": "int8", "enforce_eager": true, "draft_sample_method": "greedy"})");
  EXPECT_EQ(eagle3.method, SpeculativeMethod::eagle3);
  EXPECT_EQ(
      eagle3.draft_model,
      (DraftModelOptions{
          .model = "head", .max_model_len = 100, .quantization = "int8", .enforce_eager = true}));
  EXPECT_EQ(parse(R"({"method": "eagle", "model": "x", "num_speculative_tokens": 1})").method,
            SpeculativeMethod::eagle);
  const SpeculativeConfig mtp = parse(R"({"method": "mtp", "num_speculative_tokens": 1})");
  EXPECT_EQ(mtp.method, SpeculativeMethod::mtp);
  EXPECT_TRUE(mtp.draft_model.model.empty()) << "the head is in the main model's checkpoint";
  EXPECT_EQ(parse(R"({"method": "deepseek_mtp", "num_speculative_tokens": 1})").method,
            SpeculativeMethod::mtp)
      << "an older name";
  for (const SpeculativeMethod method :
       {SpeculativeMethod::eagle, SpeculativeMethod::eagle3, SpeculativeMethod::mtp}) {
    EXPECT_TRUE(is_draft_head(method));
  }
  EXPECT_FALSE(is_draft_head(SpeculativeMethod::draft_model));
}

TEST(SpeculativeConfig, names_what_it_refuses_of_draft_heads) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal(R"({"method": "eagle3", "num_speculative_tokens": 2})"),
              HasSubstr("method eagle3 needs 'model', the folder of the draft head"));
  EXPECT_THAT(refusal(R"({"method": "mtp", "model": "x", "num_speculative_tokens": 2})"),
              HasSubstr("'model' belongs to method draft_model, eagle, eagle3; method mtp takes"));
  EXPECT_THAT(refusal(R"({"method": "eagle3", "model": "x", "num_speculative_tokens": 2,
                          "draft_sample_method": "probabilistic"})"),
              HasSubstr("expected \"greedy\": method eagle3 has no other"));
  EXPECT_THAT(refusal(R"({"method": "eagle3", "model": "x", "num_speculative_tokens": 2,
                          "parallel_drafting": true})"),
              HasSubstr("'parallel_drafting' is not supported"));
}

TEST(SpeculativeConfig, reads_the_keys_of_suffix_decoding) {
  const SpeculativeConfig config = parse(
      R"({"method": "suffix", "num_speculative_tokens": 6, "suffix_decoding_max_tree_depth": 12,
          "suffix_decoding_max_cached_requests": 0, "suffix_decoding_max_spec_factor": 2,
          "suffix_decoding_min_token_prob": 0.25})");
  EXPECT_EQ(config.method, SpeculativeMethod::suffix);
  EXPECT_EQ(config.num_speculative_tokens, 6);
  EXPECT_EQ(config.suffix,
            (SuffixOptions{.max_tree_depth = 12,
                           .max_cached_requests = 0,
                           .max_spec_factor = 2,
                           .min_token_prob = 0.25}));
  const SpeculativeConfig defaults = parse(R"({"method": "suffix"})");
  EXPECT_EQ(defaults.num_speculative_tokens, 24) << "the depth of the tree, as in vLLM";
  EXPECT_EQ(defaults.suffix, SuffixOptions{});
  EXPECT_EQ(parse(R"({"method": "suffix", "suffix_decoding_max_tree_depth": 200})")
                .num_speculative_tokens,
            kMostSpeculativeTokens);
}

TEST(SpeculativeConfig, refuses_numbers_of_suffix_decoding_outside_of_their_range) {
  for (const char* member : {R"("suffix_decoding_max_tree_depth": 0)",
                             R"("suffix_decoding_max_tree_depth": 257)",
                             R"("suffix_decoding_max_cached_requests": -1)",
                             R"("suffix_decoding_max_cached_requests": 1.5)",
                             R"("suffix_decoding_max_spec_factor": -0.1)",
                             R"("suffix_decoding_max_spec_factor": 1e9)",
                             R"("suffix_decoding_min_token_prob": 1.01)",
                             R"("suffix_decoding_min_token_prob": "0.1")",
                             R"("suffix_decoding_min_token_prob": true)"}) {
    const std::string text = std::string(R"({"method": "suffix", )") + member + "}";
    EXPECT_THAT(refusal(text.c_str()), ::testing::HasSubstr("suffix_decoding_m")) << member;
    EXPECT_THAT(refusal(text.c_str()), ::testing::HasSubstr("expected")) << member;
  }
}

TEST(SpeculativeConfig, names_what_it_refuses_of_a_draft_model) {
  using ::testing::HasSubstr;
  const auto refusal_of = [](const std::string& more) {
    return refusal(
        (R"({"method": "draft_model", "num_speculative_tokens": 1)" + more + "}").c_str());
  };
  for (const char* model : {"", R"(, "model": "")", R"(, "model": 3)", R"(, "model": null)"}) {
    EXPECT_THAT(refusal_of(model), HasSubstr("needs 'model', the folder")) << model;
  }
  EXPECT_THAT(refusal_of(R"(, "model": "x", "max_model_len": 0)"), HasSubstr("max_model_len is 0"));
  EXPECT_THAT(refusal_of(R"(, "model": "x", "quantization": 8)"), HasSubstr("quantization is 8"));
  EXPECT_THAT(refusal_of(R"(, "model": "x", "enforce_eager": 1)"),
              HasSubstr("expected true or false"));
  EXPECT_THAT(refusal_of(R"(, "model": "x", "draft_sample_method": "best")"),
              HasSubstr("draft_sample_method is \"best\""));
  EXPECT_THAT(refusal_of(R"(, "model": "x", "prompt_lookup_max": 3)"),
              HasSubstr("'prompt_lookup_max' belongs to method ngram"));
  EXPECT_THAT(refusal_of(R"(, "model": "x", "use_heterogeneous_vocab": true)"),
              HasSubstr("'use_heterogeneous_vocab' is not supported"));
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

SpeculativeConfig with_schedule(const char* rows) {
  return parse_speculative_config({{"method", "ngram"},
                                   {"num_speculative_tokens", 3},
                                   {"num_speculative_tokens_per_batch_size", Json::parse(rows)}});
}

// The example of vLLM's page on dynamic speculative decoding.
TEST(DraftSchedule, has_the_drafts_of_the_row_that_holds_the_batch_size) {
  const SpeculativeConfig config = with_schedule("[[1, 64, 3], [65, 128, 1], [129, 512, 0]]");
  EXPECT_EQ(config.schedule, (DraftSchedule{{1, 64, 3}, {65, 128, 1}, {129, 512, 0}}));
  const std::vector<int> drafts = drafts_by_batch_size(config.schedule, 600);
  ASSERT_EQ(drafts.size(), 601U);
  for (const auto& [size, wanted] :
       {std::pair{1, 3}, {64, 3}, {65, 1}, {128, 1}, {129, 0}, {512, 0}, {600, 0}}) {
    EXPECT_EQ(drafts.at(static_cast<size_t>(size)), wanted) << size;
  }
  EXPECT_EQ(scheduled_drafts(config.schedule), (std::vector<int32_t>{0, 1, 3}));
  EXPECT_TRUE(drafts_by_batch_size({}, 600).empty());
}

TEST(DraftSchedule, keeps_the_drafts_of_a_row_until_the_next_one_begins) {
  const SpeculativeConfig config = with_schedule("[[5, 6, 1], [1, 2, 3]]");  // in any order
  EXPECT_EQ(drafts_by_batch_size(config.schedule, 8),
            (std::vector<int>{0, 3, 3, 3, 3, 1, 1, 1, 1}));
  EXPECT_EQ(drafts_by_batch_size(config.schedule, 4), (std::vector<int>{0, 3, 3, 3, 3}))
      << "rows beyond the largest batch";
}

TEST(DraftSchedule, is_refused_by_its_row) {
  for (const auto& [rows, part] : {std::pair{"[]", "a list of rows"},
                                   {"3", "a list of rows"},
                                   {"[[1, 2]]", "rows of three integers"},
                                   {"[[1, 2, \"3\"]]", "rows of three integers"},
                                   {"[[1, 2, -1]]", "rows of three integers"},
                                   {"[[1, 2, 1.5]]", "rows of three integers"},
                                   {"[[0, 2, 1]]", "begins at 1 or later"},
                                   {"[[3, 2, 1]]", "begins at 1 or later"},
                                   {"[[1, 2, 4]]", "at most num_speculative_tokens = 3"},
                                   {"[[1, 4, 3], [4, 8, 1]]", "do not overlap"},
                                   {"[[2, 4, 3]]", "a first range that begins at 1"}}) {
    try {
      (void)with_schedule(rows);
      ADD_FAILURE() << rows;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("num_speculative_tokens_per_batch_size"),
                std::string::npos);
    }
  }
}

}  // namespace
}  // namespace reprise::speculative
