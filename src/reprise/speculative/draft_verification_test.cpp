#include "reprise/speculative/draft_verification.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace reprise::speculative {
namespace {

using sampling::SampledToken;
using sampling::SamplingStatus;
using Tokens = std::vector<int32_t>;

/// Verifies drafts against rows for which the sampled tokens are given.
size_t verify(Tokens& tokens, std::vector<SampledToken>& sampled, const Tokens& of_model) {
  return verify_drafts(tokens, sampled, [&](size_t row, SampledToken& token) {
    token = {.token_id = of_model[row]};
  });
}

TEST(DraftVerification, accepts_drafts_up_to_the_first_wrong_one) {
  const Tokens of_model = {5, 6, 7, 8};
  for (size_t num_right = 0; num_right <= 3; ++num_right) {
    Tokens tokens = {5, 6, 7, 0};
    if (num_right < 3) tokens[num_right] = 99;
    std::vector<SampledToken> sampled(4);
    EXPECT_EQ(verify(tokens, sampled, of_model), num_right + 1);
    for (size_t row = 0; row < 4; ++row) {
      if (row <= num_right) {
        EXPECT_EQ(sampled[row].token_id, of_model[row]);
        EXPECT_EQ(tokens[row], of_model[row]);
      } else {
        EXPECT_EQ(sampled[row].status, SamplingStatus::not_reached);
      }
    }
  }
}

TEST(DraftVerification, stops_at_a_row_without_a_token) {
  Tokens tokens = {5, 6, 0};
  std::vector<SampledToken> sampled(3);
  const size_t num_done = verify_drafts(tokens, sampled, [](size_t row, SampledToken& token) {
    token = {.token_id = 5};
    if (row == 1) token = {.status = SamplingStatus::no_allowed_token};
  });
  EXPECT_EQ(num_done, 2);
  EXPECT_EQ(sampled[1].status, SamplingStatus::no_allowed_token);
  EXPECT_EQ(sampled[2].status, SamplingStatus::not_reached);
}

/// A small language model: the logits depend on the last token.
class Chain {
 public:
  static constexpr int kVocabSize = 6;

  explicit Chain(uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> logit(0.0F, 1.5F);
    for (auto& row : logits_) {
      for (float& value : row) value = logit(random);
    }
  }
  [[nodiscard]] const std::array<float, kVocabSize>& after(int32_t token) const {
    return logits_[static_cast<size_t>(token)];
  }

 private:
  std::array<std::array<float, kVocabSize>, kVocabSize> logits_{};
};

/// Generates `count` tokens after token 0 with runs of two drafts.
Tokens generate(const Chain& chain,
                sampling::Sampler& sampler,
                const sampling::SamplingParams& params,
                uint64_t seed,
                size_t count,
                bool with_drafts) {
  Tokens output;
  while (output.size() < count) {
    Tokens tokens = output;
    const size_t known = tokens.size();
    // These drafts are right only sometimes, because they depend only on the known tokens.
    if (with_drafts) {
      tokens.push_back(static_cast<int32_t>((known * 5 + seed) % Chain::kVocabSize));
      tokens.push_back(2);
    }
    tokens.push_back(0);
    std::vector<SampledToken> sampled(tokens.size() - known);
    const size_t num_new = verify_drafts(
        std::span(tokens).subspan(known), sampled, [&](size_t row, SampledToken& token) {
          const auto before = std::span(tokens).first(known + row);
          sampler.sample({.logits = chain.after(before.empty() ? 0 : before.back()),
                          .params = &params,
                          .output_token_ids = before,
                          .seed = seed},
                         token);
        });
    for (size_t row = 0; row < num_new; ++row) output.push_back(sampled[row].token_id);
  }
  output.resize(count);
  return output;
}

TEST(DraftVerification, gives_the_tokens_of_plain_sampling_with_the_same_seed) {
  const Chain chain(1);
  sampling::Sampler sampler(Chain::kVocabSize);
  for (const float temperature : {0.0F, 0.7F, 1.0F}) {
    const sampling::SamplingParams params{.temperature = temperature, .frequency_penalty = 0.1F};
    for (uint64_t seed = 0; seed < 500; ++seed) {
      ASSERT_EQ(generate(chain, sampler, params, seed, 12, true),
                generate(chain, sampler, params, seed, 12, false));
    }
  }
}

// The expected result is the distribution itself: the product of the softmax of the rows.
TEST(DraftVerification, samples_from_the_distribution_of_the_model) {
  constexpr int kDraws = 200'000;
  constexpr int kVocab = Chain::kVocabSize;
  constexpr float kTemperature = 0.8F;
  const Chain chain(2);
  sampling::Sampler sampler(kVocab);
  const sampling::SamplingParams params{.temperature = kTemperature};
  std::map<Tokens, int> counts;
  for (int draw = 0; draw < kDraws; ++draw) {
    ++counts[generate(chain, sampler, params, static_cast<uint64_t>(draw), 3, true)];
  }
  const auto probability = [&](int32_t before, int32_t token) {
    const auto& row = chain.after(before);
    double sum = 0;
    for (const float logit : row) sum += std::exp(logit / kTemperature);
    return std::exp(row[static_cast<size_t>(token)] / kTemperature) / sum;
  };
  double chi_square = 0;
  int num_cells = 0;
  double rest_expected = 0;
  double rest_seen = 0;
  for (int32_t a = 0; a < kVocab; ++a) {
    for (int32_t b = 0; b < kVocab; ++b) {
      for (int32_t c = 0; c < kVocab; ++c) {
        const double expected = kDraws * probability(0, a) * probability(a, b) * probability(b, c);
        const double seen = counts[{a, b, c}];
        if (expected < 10) {  // cells that are too small for the test are merged
          rest_expected += expected;
          rest_seen += seen;
          continue;
        }
        chi_square += (seen - expected) * (seen - expected) / expected;
        ++num_cells;
      }
    }
  }
  if (rest_expected > 0) {
    chi_square += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
    ++num_cells;
  }
  // Mean and standard deviation of chi-square with n degrees of freedom are n and sqrt(2n).
  const double freedom = num_cells - 1;
  EXPECT_GT(num_cells, 100);
  EXPECT_LT(chi_square, freedom + 4 * std::sqrt(2 * freedom));
}

}  // namespace
}  // namespace reprise::speculative
