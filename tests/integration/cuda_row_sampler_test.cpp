#include "reprise/kernels/cuda/row_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "reprise/sampling/logprobs.h"
#include "reprise/sampling/sampler.h"
#include "tests/support/fake_cuda/cuda_machine_fixture.h"

// Compares the GPU's sampler with the CPU's, which uses the same random numbers.
namespace reprise::kernels::cuda {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

SamplingRow row_of(const sampling::SamplingParams& params, uint64_t seed, uint64_t position) {
  return {.seed = seed,
          .position = position,
          .min_p_edge = params.min_p > 0 ? std::log(double{params.min_p}) * params.temperature
                                         : -std::numeric_limits<double>::infinity(),
          .temperature = params.is_greedy() ? 0 : params.temperature,
          .top_p = params.top_p,
          .top_k = params.top_k};
}

class CudaRowSampling : public testing::Test {
 protected:
  /// Samples tokens from rows. The rows share logits, unless a test changes them.
  std::vector<int32_t> sample(const std::vector<float>& logits,
                              int64_t vocab_size,
                              const std::vector<SamplingRow>& rows,
                              const std::vector<LogitAdjustment>& adjustments = {}) {
    CudaRowSampler sampler(
        *stream_, static_cast<int32_t>(rows.size()), vocab_size, num_multiprocessors_);
    const device::Buffer memory = machine_.device().allocate(logits.size() * sizeof(float));
    stream_->copy_from_host(memory.data(), logits.data(), logits.size() * sizeof(float));
    const Tensor tensor =
        Tensor::borrow({DType::f32, {static_cast<int64_t>(logits.size()) / vocab_size, vocab_size}},
                       memory.data(),
                       executor_);
    sampler.launch(tensor, rows, adjustments);
    const std::span<const int32_t> tokens = sampler.wait();
    return {tokens.begin(), tokens.end()};
  }
  std::vector<float> random_logits(int64_t count, float deviation) {
    std::normal_distribution<float> normal(0, deviation);
    std::vector<float> logits(static_cast<size_t>(count));
    for (float& logit : logits) logit = normal(random_);
    return logits;
  }
  static int32_t on_cpu(const std::vector<float>& logits,
                        const sampling::SamplingParams& params,
                        uint64_t seed,
                        size_t position) {
    sampling::Sampler sampler(static_cast<int>(logits.size()));
    const std::vector<int32_t> output(position, 0);
    sampling::SampledToken token;
    sampler.sample({.logits = logits, .params = &params, .output_token_ids = output, .seed = seed},
                   token);
    return token.token_id;
  }

  CudaMachine machine_{MachineKind::real_if_there};
  std::unique_ptr<device::Stream> stream_ = machine_.device().create_stream();
  std::unique_ptr<device::MemoryPool> pool_ = machine_.device().create_pool();
  CudaExecutor executor_{*stream_, *pool_, {.num_multiprocessors = 4}};
  std::mt19937 random_{3};
  int num_multiprocessors_ = 4;
};

TEST_F(CudaRowSampling, greedy_is_the_first_of_the_largest_logits) {
  for (const int64_t vocab_size : {1, 2, 31, 32, 33, 255, 256, 257, 3000}) {
    const std::vector<float> logits = random_logits(vocab_size, 2);
    EXPECT_EQ(sample(logits, vocab_size, {SamplingRow{}}).front(),
              on_cpu(logits, {.temperature = 0}, 1, 0));
    std::vector<float> ties(static_cast<size_t>(vocab_size), -0.0F);
    EXPECT_EQ(sample(ties, vocab_size, {SamplingRow{}}).front(), 0);
    ties.back() = 0.0F;  // 0 is not larger than the ties
    EXPECT_EQ(sample(ties, vocab_size, {SamplingRow{}}).front(), 0);
    ties.back() = 1.0F;
    EXPECT_EQ(sample(ties, vocab_size, {SamplingRow{}}).front(), vocab_size - 1);
  }
}

TEST_F(CudaRowSampling, tokens_reach_the_next_ids_on_the_device_and_two_launches_may_wait) {
  constexpr int64_t kVocab = 300;
  constexpr int kRows = 270;  // more than the threads of a block
  std::vector<float> logits = random_logits(kRows * kVocab, 2);
  logits[5 * kVocab + 7] = std::numeric_limits<float>::quiet_NaN();
  CudaRowSampler sampler(*stream_, kRows, kVocab, num_multiprocessors_);
  const device::Buffer memory = machine_.device().allocate(logits.size() * sizeof(float));
  stream_->copy_from_host(memory.data(), logits.data(), logits.size() * sizeof(float));
  const Tensor tensor = Tensor::borrow({DType::f32, {kRows, kVocab}}, memory.data(), executor_);
  std::vector<SamplingRow> rows(kRows);
  for (int r = 0; r < kRows; ++r) rows[static_cast<size_t>(r)].logits_row = r;
  std::vector<SamplingRow> reversed(rows.rbegin(), rows.rend());

  std::vector<int32_t> ids(400, -7);
  const device::Buffer id_memory = machine_.device().allocate(ids.size() * sizeof(int32_t));
  stream_->copy_from_host(id_memory.data(), ids.data(), ids.size() * sizeof(int32_t));
  const Tensor id_tensor = Tensor::borrow({DType::i32, {400}}, id_memory.data(), executor_);
  std::vector<TokenPlace> places;
  for (int r = 0; r < kRows; r += 1) places.push_back({.index = 399 - r, .row = r});

  sampler.launch(tensor, rows, {});
  sampler.launch(tensor, reversed, {});
  sampler.write_tokens(id_tensor, places);  // of the second launch
  const std::span<const int32_t> waited = sampler.wait();
  const std::vector<int32_t> first(waited.begin(), waited.end());
  const std::span<const int32_t> second = sampler.wait();
  EXPECT_TRUE(std::equal(first.rbegin(), first.rend(), second.begin(), second.end()));
  stream_->copy_to_host(ids.data(), id_memory.data(), ids.size() * sizeof(int32_t));
  ASSERT_EQ(first.size(), rows.size());
  EXPECT_EQ(first[5], kNonFiniteLogits);
  for (int r = 0; r < kRows; ++r) {
    const auto row = static_cast<size_t>(kRows - 1 - r);
    EXPECT_EQ(ids[static_cast<size_t>(399 - r)], std::max(first[row], 0)) << r;
  }
  for (size_t i = 0; i < 400 - kRows; ++i) EXPECT_EQ(ids[i], -7) << i;
}

TEST_F(CudaRowSampling, the_same_uniform_number_gives_the_cpus_token) {
  const std::vector<sampling::SamplingParams> all_params = {
      {.temperature = 1.0F},
      {.temperature = 0.3F},
      {.temperature = 2.0F, .top_p = 0.9F},
      {.top_p = 0.5F},
      {.top_p = 1e-6F},
      {.top_k = 1},
      {.top_k = 5},
      {.top_k = 300},
      {.top_k = 100000},
      {.min_p = 0.05F},
      {.min_p = 1.0F},
      {.temperature = 0.7F, .top_p = 0.8F, .top_k = 20, .min_p = 0.01F},
      {.temperature = 1.5F, .top_p = 0.99F, .top_k = 600},
  };
  for (const int64_t vocab_size : {1, 33, 500, 2000}) {
    num_multiprocessors_ = vocab_size == 2000 ? 132 : 4;
    for (const float deviation : {0.1F, 3.0F}) {
      std::vector<float> logits = random_logits(vocab_size, deviation);
      for (size_t i = 3; i + 1 < logits.size(); i += 7) logits[i] = logits[i - 1];  // ties
      for (size_t i = 5; i + 1 < logits.size(); i += 11) logits[i] = kNever;
      std::vector<SamplingRow> rows;
      std::vector<int32_t> want;
      for (const sampling::SamplingParams& params : all_params) {
        for (uint64_t seed = 0; seed < 3; ++seed) {
          rows.push_back(row_of(params, seed * 77, seed + 2));
          want.push_back(on_cpu(logits, params, seed * 77, seed + 2));
        }
      }
      EXPECT_EQ(sample(logits, vocab_size, rows), want) << vocab_size << ", " << deviation;
    }
  }
}

// If there is one row, each block has a part of 1,024 tokens; with many rows, parts are longer.
TEST_F(CudaRowSampling, a_large_vocabulary_is_divided_between_blocks) {
  constexpr int64_t kVocabulary = 152064;
  num_multiprocessors_ = 132;
  std::vector<float> logits = random_logits(kVocabulary, 2.5F);
  for (size_t i = 40; i < logits.size(); i += 1001) logits[i] += 14;  // what a model prefers
  logits[151000] = logits[3] = 25;
  const std::vector<sampling::SamplingParams> all_params = {
      {.temperature = 0},
      {.temperature = 1.0F},
      {.temperature = 0.7F, .top_p = 0.8F, .top_k = 20},  // Qwen's generation config
      {.temperature = 1.3F, .top_p = 0.95F},
      {.temperature = 1.0F, .min_p = 0.001F},
  };
  std::vector<SamplingRow> rows;
  std::vector<int32_t> want;
  for (const sampling::SamplingParams& params : all_params) {
    rows.push_back(row_of(params, 8, 1));
    want.push_back(on_cpu(logits, params, 8, 1));
    EXPECT_EQ(sample(logits, kVocabulary, {rows.back()}).front(), want.back());
  }
  EXPECT_EQ(sample(logits, kVocabulary, rows), want);
}

// There are more equal logits than places in the list of candidates, so one block looks at all
// tokens.
TEST_F(CudaRowSampling, more_candidates_than_places_are_still_chosen_among) {
  num_multiprocessors_ = 132;
  std::vector<float> logits(kMostCandidates + 3000, 0.25F);
  for (size_t i = 0; i < logits.size(); i += 3) logits[i] = -1.0F;
  for (const sampling::SamplingParams& params :
       {sampling::SamplingParams{.top_k = 4200}, sampling::SamplingParams{.top_p = 0.7F}}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      EXPECT_EQ(
          sample(logits, static_cast<int64_t>(logits.size()), {row_of(params, seed, 0)}).front(),
          on_cpu(logits, params, seed, 0));
    }
  }
}

TEST_F(CudaRowSampling, ties_at_an_edge_keep_the_lower_ids) {
  const std::vector<float> logits(40, 0.5F);
  std::vector<SamplingRow> top_k;
  std::vector<SamplingRow> top_p;
  for (uint64_t i = 0; i < 40; ++i) {
    top_k.push_back(row_of({.top_k = 3}, i, 0));
    // four of forty equal tokens have less than this share
    top_p.push_back(row_of({.top_p = 0.101F}, i, 0));
  }
  for (const int32_t token : sample(logits, 40, top_k)) EXPECT_LT(token, 3);
  for (const int32_t token : sample(logits, 40, top_p)) EXPECT_LT(token, 5);
}

TEST_F(CudaRowSampling, draws_follow_the_distribution) {
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F, -1.0F, 0.5F, 1.5F, kNever, 3.0F};
  const double temperature = 1.3;
  constexpr size_t kDraws = 2000;
  std::vector<double> probabilities;
  double total = 0;
  for (float logit : logits) {
    probabilities.push_back(std::exp(logit / temperature));
    total += probabilities.back();
  }
  std::vector<SamplingRow> rows;
  for (uint64_t i = 0; i < kDraws; ++i) {
    rows.push_back(row_of({.temperature = 1.3F}, 9, i));
  }
  std::vector<double> counts(logits.size());
  for (const int32_t token : sample(logits, 8, rows)) counts.at(static_cast<size_t>(token)) += 1;
  double chi_square = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = kDraws * probabilities[i] / total;
    if (expected == 0) {
      EXPECT_EQ(counts[i], 0);
    } else {
      chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  EXPECT_LT(chi_square, 22.46) << "six degrees of freedom: one in a thousand";
}

TEST_F(CudaRowSampling, logits_are_adjusted_before_anything_else) {
  const std::vector<float> logits = {1.0F, 2.0F, 3.0F, 0.0F};
  const std::vector<LogitAdjustment> adjustments = {{2, kNever}, {0, 4.0F}, {0, kNever}};
  SamplingRow never{.num_adjustments = 1};
  SamplingRow biased{.logits_row = 1, .first_adjustment = 1, .num_adjustments = 1};
  SamplingRow both{.logits_row = 2, .first_adjustment = 0, .num_adjustments = 3};
  std::vector<float> rows;
  for (int i = 0; i < 3; ++i) rows.insert(rows.end(), logits.begin(), logits.end());
  EXPECT_EQ(sample(rows, 4, {never, biased, both}, adjustments), (std::vector<int32_t>{1, 0, 1}));
}

// Launches with the same slots and logits: each counts the tokens that the launches before it
// chose.
TEST_F(CudaRowSampling, penalties_count_the_tokens_that_were_chosen_as_the_cpu_does) {
  const std::vector<sampling::SamplingParams> all_params = {
      {.temperature = 0, .repetition_penalty = 1.3F},
      {.temperature = 0, .presence_penalty = 2.0F},
      {.temperature = 0, .frequency_penalty = 0.75F},
      {.temperature = 0.8F, .repetition_penalty = 1.05F},
      {.temperature = 0.7F, .top_p = 0.8F, .top_k = 20, .repetition_penalty = 1.05F},
      {.temperature = 0.3F, .top_k = 5, .presence_penalty = 2.0F, .frequency_penalty = 1.0F},
      {.temperature = 1.5F, .min_p = 0.02F, .repetition_penalty = 0.5F, .presence_penalty = -1.0F},
      {.temperature = 0, .repetition_penalty = 1e-40F},  // logits overflow and stay drawable
  };
  for (const int64_t vocab_size : {6, 301, 2050}) {
    num_multiprocessors_ = vocab_size == 2050 ? 132 : 4;
    const auto num_rows = static_cast<int32_t>(all_params.size());
    CudaRowSampler sampler(*stream_, num_rows, vocab_size, num_multiprocessors_);
    ASSERT_EQ(sampler.num_count_slots(), num_rows);
    // More tokens than one copy brings, and few different ones.
    std::vector<int32_t> prompt(vocab_size == 301 ? 40000 : 50);
    for (size_t i = 0; i < prompt.size(); ++i) {
      prompt[i] = static_cast<int32_t>((i * i + 3) % static_cast<size_t>(vocab_size));
    }
    std::vector<std::vector<int32_t>> output(all_params.size(), {1, 5, 1, 1});
    std::vector<SamplingRow> rows;
    for (size_t i = 0; i < all_params.size(); ++i) {
      const int32_t slot = num_rows - 1 - static_cast<int32_t>(i);
      sampler.count_tokens(slot, {{2, 3}}, {{4, 4}});  // an earlier request
      sampler.count_tokens(slot, prompt, output[i]);
      rows.push_back(row_of(all_params[i], 11 + i, 0));
      rows.back().count_slot = slot;
      rows.back().repetition_penalty = all_params[i].repetition_penalty;
      rows.back().presence_penalty = all_params[i].presence_penalty;
      rows.back().frequency_penalty = all_params[i].frequency_penalty;
    }
    const std::vector<float> logits = random_logits(vocab_size, 2);
    for (int launch = 0; launch < 6; ++launch) {
      const device::Buffer memory =
          machine_.device().allocate(logits.size() * rows.size() * sizeof(float));
      for (size_t i = 0; i < rows.size(); ++i) {
        rows[i].position = output[i].size();
        rows[i].logits_row = static_cast<int32_t>(i);
        stream_->copy_from_host(static_cast<float*>(memory.data()) + i * logits.size(),
                                logits.data(),
                                logits.size() * sizeof(float));
      }
      const Tensor tensor =
          Tensor::borrow({DType::f32, {num_rows, vocab_size}}, memory.data(), executor_);
      sampler.launch(tensor, rows, {});
      const std::span<const int32_t> tokens = sampler.wait();
      for (size_t i = 0; i < rows.size(); ++i) {
        sampling::Sampler cpu(static_cast<int>(vocab_size));
        sampling::SampledToken want;
        cpu.sample({.logits = logits,
                    .params = &all_params[i],
                    .prompt_token_ids = prompt,
                    .output_token_ids = output[i],
                    .seed = 11 + i},
                   want);
        EXPECT_EQ(tokens[i], want.token_id) << vocab_size << ", " << launch << ", row " << i;
        output[i].push_back(want.token_id);
      }
    }
  }
}

// Flat and steep rows, ties, tokens that must not be chosen, and likeliest tokens without weight.
TEST_F(CudaRowSampling, log_probabilities_ranks_and_likeliest_tokens_are_those_of_the_cpu) {
  const std::vector<sampling::SamplingParams> all_params = {
      {.temperature = 0, .logprobs = 0},
      {.temperature = 0, .logprobs = 5},
      {.temperature = 2.0F, .logprobs = kMostTopLogits},
      {.temperature = 1.5F, .top_p = 0.9F, .top_k = 40, .logprobs = 20},
      {.temperature = 0},
  };
  for (const int64_t vocab_size : {1, 7, 33, 2050, 9000}) {
    num_multiprocessors_ = vocab_size < 2000 ? 4 : 132;
    for (const float deviation : {0.0F, 0.1F, 3.0F, 40.0F}) {
      std::vector<float> logits = random_logits(vocab_size, 1);
      for (float& logit : logits) logit *= deviation;
      for (size_t i = 3; i < logits.size(); i += 7) logits[i] = logits[i - 1];
      for (size_t i = 5; i < logits.size(); i += 11) logits[i] = kNever;
      const auto num_rows = static_cast<int32_t>(all_params.size());
      std::vector<SamplingRow> rows;
      for (size_t i = 0; i < all_params.size(); ++i) {
        rows.push_back(row_of(all_params[i], 5 + i, 3));
        rows.back().num_logprobs = all_params[i].logprobs.value_or(kNoLogprobs);
      }
      CudaRowSampler sampler(*stream_, num_rows, vocab_size, num_multiprocessors_);
      const device::Buffer memory = machine_.device().allocate(logits.size() * sizeof(float));
      stream_->copy_from_host(memory.data(), logits.data(), logits.size() * sizeof(float));
      const Tensor tensor = Tensor::borrow({DType::f32, {1, vocab_size}}, memory.data(), executor_);
      sampler.launch(tensor, rows, {});
      sampler.launch(tensor, std::span(rows).last(1), {});
      const std::span<const int32_t> waited = sampler.wait();
      const std::vector<int32_t> tokens(waited.begin(), waited.end());
      ASSERT_EQ(sampler.logprobs().size(), rows.size());
      for (size_t i = 0; i < rows.size(); ++i) {
        SCOPED_TRACE(testing::Message() << vocab_size << ", " << deviation << ", row " << i);
        const RowLogprobs& got = sampler.logprobs()[i];
        if (!all_params[i].logprobs) {
          EXPECT_EQ(got.num_top, kNoLogprobs);
          continue;
        }
        const auto want = sampling::position_logprobs(logits, tokens[i], *all_params[i].logprobs);
        const double log_normaliser = double{got.max} + std::log(got.sum);
        EXPECT_NEAR(got.chosen - log_normaliser, want.token.logprob, 1e-6 * (1 + deviation));
        EXPECT_EQ(got.rank, want.token.rank);
        ASSERT_EQ(static_cast<size_t>(got.num_top), want.top.size());
        for (size_t n = 0; n < want.top.size(); ++n) {
          EXPECT_EQ(got.top[n].id, want.top[n].token_id) << n;
          if (got.top[n].logit == kNever) continue;
          EXPECT_NEAR(
              got.top[n].logit - log_normaliser, want.top[n].logprob, 1e-5 * (1 + deviation));
        }
      }
      (void)sampler.wait();
      EXPECT_TRUE(sampler.logprobs().empty()) << "no row of the second launch wants any";
    }
  }
}

TEST_F(CudaRowSampling, an_infinite_logit_of_a_counted_token_ends_the_request) {
  const std::vector<float> logits = {1, std::numeric_limits<float>::infinity(), 0};
  CudaRowSampler sampler(*stream_, 1, 3, num_multiprocessors_);
  sampler.count_tokens(0, {{1}}, {});
  const device::Buffer memory = machine_.device().allocate(sizeof(float) * 3);
  stream_->copy_from_host(memory.data(), logits.data(), sizeof(float) * 3);
  const Tensor tensor = Tensor::borrow({DType::f32, {1, 3}}, memory.data(), executor_);
  sampler.launch(tensor, {{{.repetition_penalty = 2, .count_slot = 0}}}, {});
  EXPECT_EQ(sampler.wait().front(), kNonFiniteLogits);
}

TEST_F(CudaRowSampling, says_why_there_is_no_token) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> rows = {1, nan, 0, 2, 1, infinity, kNever, kNever, kNever, 0, 1, kNever};
  std::vector<SamplingRow> wanted;
  for (int32_t row = 0; row < 4; ++row) {
    for (const float temperature : {0.0F, 1.0F}) {
      wanted.push_back(row_of({.temperature = temperature, .top_k = 1}, 1, 1));
      wanted.back().logits_row = row;
    }
  }
  EXPECT_EQ(sample(rows, 3, wanted),
            (std::vector<int32_t>{kNonFiniteLogits,
                                  kNonFiniteLogits,
                                  kNonFiniteLogits,
                                  kNonFiniteLogits,
                                  kNoAllowedToken,
                                  kNoAllowedToken,
                                  1,
                                  1}));
}

}  // namespace
}  // namespace reprise::kernels::cuda
