#include "reprise/runner/sampling_team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_features.h"

namespace reprise::runner {
namespace {

using kernels::Isa;
using kernels::isa_name;
using kernels::supported_isas;
using sampling::SampledToken;
using sampling::SamplingParams;

constexpr int kVocab = 5003;
constexpr size_t kRows = 60;

class SamplingTeamTest : public testing::TestWithParam<Isa> {
 protected:
  SamplingTeamTest() {
    std::mt19937 random(23);
    std::normal_distribution<float> normal(0.0F, 2.0F);
    rows_.resize(kRows);
    params_.resize(kRows);
    for (size_t row = 0; row < kRows; ++row) {
      for (int i = 0; i < kVocab; ++i) rows_[row].push_back(normal(random));
      params_[row].temperature = row % 5 == 0 ? 0.0F : 0.3F + static_cast<float>(row % 4);
      if (row % 3 == 1) params_[row].top_p = 0.9F;
      if (row % 4 == 1) params_[row].top_k = 40;
      if (row % 7 == 1) params_[row].min_p = 0.01F;
      if (row % 2 == 1) params_[row].presence_penalty = 1.0F;
    }
  }

  [[nodiscard]] sampling::SamplingInput input(size_t row) const {
    return {.logits = rows_[row],
            .params = &params_[row],
            .output_token_ids = output_,
            .seed = sampling::derive_seed(5, row)};
  }
  [[nodiscard]] std::vector<int32_t> sample(int num_threads) const {
    const auto device =
        device::create_cpu_device({.num_threads = num_threads, .allow_oversubscription = true});
    const auto stream = device->create_stream();
    SamplingTeam team(*stream, kernels::kernel_table(GetParam()), kVocab);
    std::vector<SampledToken> tokens(kRows);
    team.run(kRows, [&](size_t row, sampling::Sampler& sampler) {
      sampler.sample(input(row), tokens[row]);
    });
    std::vector<int32_t> ids;
    for (const SampledToken& token : tokens) ids.push_back(token.token_id);
    return ids;
  }

  std::vector<std::vector<float>> rows_;
  std::vector<SamplingParams> params_;
  std::vector<int32_t> output_ = {3, 99, 4000};
};

TEST_P(SamplingTeamTest, gives_the_same_tokens_with_any_number_of_workers) {
  const std::vector<int32_t> alone = sample(1);
  for (const int num_threads : {2, 3, 5}) EXPECT_EQ(sample(num_threads), alone);
}

// A random number near the border between two tokens could decide differently. These random numbers
// do not.
TEST_P(SamplingTeamTest, draws_the_tokens_of_plain_loops) {
  sampling::Sampler plain(kVocab);
  const std::vector<int32_t> got = sample(2);
  for (size_t row = 0; row < kRows; ++row) {
    SampledToken want;
    plain.sample(input(row), want);
    EXPECT_EQ(got[row], want.token_id) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(AllIsas,
                         SamplingTeamTest,
                         testing::ValuesIn(supported_isas(device::detect_cpu_features())),
                         [](const auto& test) { return std::string(isa_name(test.param)); });

TEST(SamplingTeam, throws_the_exception_of_a_row) {
  const auto device = device::create_cpu_device({.num_threads = 2, .allow_oversubscription = true});
  const auto stream = device->create_stream();
  SamplingTeam team(*stream, kernels::kernel_table(Isa::scalar), kVocab);
  const auto fail = [](size_t row, sampling::Sampler&) {
    if (row == 7) throw std::runtime_error("row 7");
  };
  EXPECT_THROW(team.run(20, fail), std::runtime_error);
  EXPECT_NO_THROW(team.run(7, fail));
}

}  // namespace
}  // namespace reprise::runner
