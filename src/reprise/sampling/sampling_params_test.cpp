#include "reprise/sampling/sampling_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "reprise/base/error.h"

namespace reprise::sampling {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kVocabSize = 100;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::string error_of(const SamplingParams& params) {
  try {
    validate(params, kVocabSize);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

struct Field {
  std::string name;
  std::function<void(SamplingParams&, float)> set;
  std::vector<float> good;
  std::vector<float> bad;
};

// Entries P28-P30 of the list of malformed requests, and the edges of every range.
TEST(SamplingParams, refuses_numbers_outside_their_range_by_name_and_value) {
  const std::vector<Field> fields = {
      {"temperature",
       [](SamplingParams& p, float v) { p.temperature = v; },
       {0.0F, 1e-6F, 1.0F, 2.0F},
       {-0.1F, 2.01F, 1e38F, -1e-6F}},
      {"top_p",
       [](SamplingParams& p, float v) { p.top_p = v; },
       {1e-6F, 0.5F, 1.0F},
       {0.0F, -0.1F, 1.0001F}},
      {"min_p", [](SamplingParams& p, float v) { p.min_p = v; }, {0.0F, 1.0F}, {-0.1F, 1.1F}},
      {"repetition_penalty",
       [](SamplingParams& p, float v) { p.repetition_penalty = v; },
       {0.01F, 1.0F, 2.01F},
       {0.0F, -1.0F}},
      {"presence_penalty",
       [](SamplingParams& p, float v) { p.presence_penalty = v; },
       {-2.0F, 0.0F, 2.0F},
       {-2.01F, 2.01F}},
      {"frequency_penalty",
       [](SamplingParams& p, float v) { p.frequency_penalty = v; },
       {-2.0F, 0.0F, 2.0F},
       {-2.01F, 2.01F}},
      {"logit_bias[3]",
       [](SamplingParams& p, float v) { p.logit_bias = {{3, v}}; },
       {-100.0F, 100.0F},
       {-101.0F, 101.0F}},
  };
  for (const Field& field : fields) {
    SamplingParams params;
    for (const float value : field.good) {
      field.set(params, value);
      EXPECT_EQ(error_of(params), "") << field.name << " " << value;
    }
    std::vector<float> bad = field.bad;
    bad.insert(bad.end(), {kNan, kInf, -kInf});
    for (const float value : bad) {
      field.set(params, value);
      EXPECT_THAT(error_of(params), HasSubstr(field.name)) << value;
    }
  }
}

TEST(SamplingParams, message_names_field_value_and_range) {
  SamplingParams params;
  params.temperature = 2.5F;
  EXPECT_EQ(error_of(params), "temperature is 2.5, expected a number in [0, 2]");
}

TEST(SamplingParams, takes_minus_one_and_zero_as_top_k_off) {
  SamplingParams params;
  for (const int top_k : {-1, 0, 1, 1 << 30}) {
    params.top_k = top_k;
    EXPECT_EQ(error_of(params), "");
  }
  params.top_k = -2;
  EXPECT_THAT(error_of(params), AllOf(HasSubstr("top_k"), HasSubstr("-2")));
}

// Entry P24. Without max_tokens the answer may fill the context.
TEST(SamplingParams, bounds_token_counts) {
  SamplingParams params;
  for (const int max_tokens : {0, -1}) {
    params.max_tokens = max_tokens;
    EXPECT_THAT(error_of(params), HasSubstr("max_tokens"));
  }
  params.max_tokens = 5;
  params.min_tokens = 5;
  EXPECT_EQ(error_of(params), "");
  params.min_tokens = 6;
  EXPECT_THAT(error_of(params), AllOf(HasSubstr("min_tokens is 6"), HasSubstr("max_tokens = 5")));
  params.max_tokens.reset();
  EXPECT_EQ(error_of(params), "");
  params.min_tokens = -1;
  EXPECT_THAT(error_of(params), HasSubstr("min_tokens"));
}

// Entries P31 and P33.
TEST(SamplingParams, bounds_logprobs_and_stop_strings) {
  SamplingParams params;
  for (const int logprobs : {0, 20}) {
    params.logprobs = logprobs;
    EXPECT_EQ(error_of(params), "");
  }
  for (const int logprobs : {-2, -1, 21}) {
    params.logprobs = logprobs;
    EXPECT_THAT(error_of(params), HasSubstr("logprobs"));
  }
  params.logprobs.reset();
  params.stop = std::vector<std::string>(16, "x");
  EXPECT_EQ(error_of(params), "");
  for (const auto& stop : std::vector<std::vector<std::string>>{
           {""}, std::vector<std::string>(17, "x"), {std::string(1 << 20, 'x')}}) {
    params.stop = stop;
    EXPECT_THAT(error_of(params), HasSubstr("stop"));
  }
}

// Entry P32, and lists of token ids.
TEST(SamplingParams, refuses_token_ids_outside_the_vocabulary) {
  for (const int32_t id : {-1, kVocabSize, std::numeric_limits<int32_t>::max()}) {
    SamplingParams params;
    params.stop_token_ids = {0, id};
    EXPECT_THAT(error_of(params), HasSubstr("stop_token_ids[1]"));
    params = {};
    params.allowed_token_ids = {id};
    EXPECT_THAT(error_of(params), HasSubstr("allowed_token_ids[0]"));
    params = {};
    params.logit_bias = {{id, 1.0F}};
    EXPECT_THAT(error_of(params), HasSubstr("logit_bias"));
  }
}

TEST(SamplingParams, bounds_bad_words_and_prompt_logprobs) {
  SamplingParams params;
  params.bad_words.assign(kMaxBadWords, "x");
  params.prompt_logprobs = kMaxLogprobs;
  params.bad_words_token_ids = {{0}, {kVocabSize - 1, 0}};
  EXPECT_EQ(error_of(params), "");
  params.bad_words_token_ids = {{0}, {kVocabSize}};
  EXPECT_THAT(error_of(params), HasSubstr("bad_words[0] is"));
  params.bad_words_token_ids.clear();
  params.bad_words.emplace_back("x");
  EXPECT_THAT(error_of(params), HasSubstr("bad_words is 129 strings"));
  params.bad_words = {""};
  EXPECT_THAT(error_of(params), HasSubstr("bad_words[0] is 0 bytes long"));
  params.bad_words.clear();
  params.prompt_logprobs = kMaxLogprobs + 1;
  EXPECT_THAT(error_of(params), HasSubstr("prompt_logprobs is 21"));
}

}  // namespace
}  // namespace reprise::sampling
