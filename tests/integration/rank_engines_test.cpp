#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/device/error.h"
#include "reprise/runner/rank_steps.h"
#include "tests/integration/step_outcome.h"
#include "tests/integration/tiny_engine.h"
#include "tests/support/parallel/local_transport.h"
#include "tests/support/source_dir.h"

namespace reprise::testing {
namespace {

using ::testing::HasSubstr;

parallel::CommunicatorOptions quick_options() {
  return {.timeout = std::chrono::seconds(60), .beat_interval = std::chrono::milliseconds(200)};
}

TinyEngineOptions options_of(parallel::Communicator* ranks,
                             cudagraph::CudagraphMode mode,
                             config::CompilationMode level) {
  TinyEngineOptions options{.mode = mode, .level = level, .num_threads = 1, .dtype = DType::f32};
  options.ranks = ranks;
  return options;
}

// The logits of a few batches one after the other, over one cache.
std::vector<float> run_batches(TinyEngine& engine, int rounds) {
  std::vector<float> all;
  for (int round = 0; round < rounds; ++round) {
    for (const Mix mix : kMixes) {
      const TestBatch batch(mix, mix == Mix::uniform_decode ? 3 : 21, 8, 40 + round);
      const engine::StepResult& result = engine.runner().execute(batch.requests(), batch.facts());
      engine.runner().wait();
      const std::vector<float> logits = engine.logits(result);
      all.insert(all.end(), logits.begin(), logits.end());
    }
  }
  return all;
}

// Rank 0's logits; the other ranks follow.
std::vector<float> run_on_ranks(int size,
                                cudagraph::CudagraphMode mode,
                                config::CompilationMode level,
                                int rounds,
                                const std::string& config = kTinyQwen3Config,
                                bool divides_layers = false) {
  std::vector<float> logits;
  parallel::run_ranks(size, [&](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, rank),
                                 quick_options());
    TinyEngineOptions options = options_of(&ranks, mode, level);
    options.config = config;
    options.divides_layers = divides_layers;
    TinyEngine engine(options);
    engine.runner().capture({});
    if (rank == 0) {
      logits = run_batches(engine, rounds);
      engine.runner().stop_other_ranks();
    } else {
      engine::run_announced_steps(ranks, engine.runner());
    }
    ranks.finish();
  });
  return logits;
}

TEST(RankEngines, compute_the_logits_of_one_rank_in_every_mode) {
  TinyEngine alone(
      options_of(nullptr, cudagraph::CudagraphMode::NONE, config::CompilationMode::NONE));
  alone.runner().capture({});
  const std::vector<float> expected = run_batches(alone, 2);
  for (const int size : {2, 4}) {
    std::vector<float> first;
    for (const cudagraph::CudagraphMode mode : kModes) {
      for (const auto level :
           {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
        SCOPED_TRACE(::testing::Message() << size << " ranks, " << to_string(mode));
        const std::vector<float> logits = run_on_ranks(size, mode, level, 2);
        ASSERT_EQ(logits.size(), expected.size());
        EXPECT_LT(relative_distance(logits, expected), 1e-5);
        // Among modes, levels and repeats not a bit differs.
        if (first.empty()) first = logits;
        EXPECT_EQ(std::memcmp(logits.data(), first.data(), logits.size() * sizeof(float)), 0);
      }
    }
  }
}

// The configs of the golden checkpoints, with made-up weights.
std::vector<std::filesystem::path> golden_configs() {
  std::vector<std::filesystem::path> paths;
  const std::filesystem::path folder = std::filesystem::path(source_dir()) / "tests/goldens";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const bool is_of_pooling = entry.path().parent_path().filename() == "1_Pooling";
    if (entry.path().filename() == "config.json" && !is_of_pooling) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

TEST(RankEngines, compute_the_logits_of_one_rank_or_refuse_every_architecture) {
  int num_run = 0;
  for (const std::filesystem::path& path : golden_configs()) {
    SCOPED_TRACE(path.string());
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    weights::ModelConfig config;
    try {
      config = weights::config_of_rank(weights::parse_model_config(text, "config.json").config, 2);
    } catch (const InvalidArgument& refusal) {
      EXPECT_THAT(refusal.what(), HasSubstr("--tensor-parallel-size"));
      continue;
    }
    ++num_run;
    TinyEngineOptions alone = options_of(
        nullptr, cudagraph::CudagraphMode::FULL_AND_PIECEWISE, config::CompilationMode::NONE);
    alone.config = text;
    TinyEngine engine(alone);
    engine.runner().capture({});
    const std::vector<float> expected = run_batches(engine, 1);
    for (const auto level :
         {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
      const std::vector<float> logits =
          run_on_ranks(2, cudagraph::CudagraphMode::FULL_AND_PIECEWISE, level, 1, text);
      ASSERT_EQ(logits.size(), expected.size());
      EXPECT_LT(relative_distance(logits, expected), 2e-5);
    }
  }
  fmt::print("[measured] {} configs ran on two ranks\n", num_run);
  EXPECT_GE(num_run, 15);
}

TEST(RankEngines, that_divide_the_layers_compute_the_bits_of_one_rank_in_every_mode) {
  TinyEngine alone(
      options_of(nullptr, cudagraph::CudagraphMode::NONE, config::CompilationMode::NONE));
  alone.runner().capture({});
  const std::vector<float> expected = run_batches(alone, 2);
  for (const cudagraph::CudagraphMode mode : kModes) {
    for (const auto level :
         {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
      SCOPED_TRACE(to_string(mode));
      EXPECT_EQ(run_on_ranks(2, mode, level, 2, kTinyQwen3Config, true), expected);
    }
  }
}

TEST(RankEngines, that_divide_the_layers_run_or_refuse_every_architecture) {
  int num_run = 0;
  for (const std::filesystem::path& path : golden_configs()) {
    SCOPED_TRACE(path.string());
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    try {
      (void)weights::config_of_stage(weights::parse_model_config(text, "config.json").config, 0, 2);
    } catch (const InvalidArgument& refusal) {
      EXPECT_THAT(refusal.what(), HasSubstr("--pipeline-parallel-size"));
      continue;
    }
    ++num_run;
    TinyEngineOptions alone = options_of(
        nullptr, cudagraph::CudagraphMode::FULL_AND_PIECEWISE, config::CompilationMode::NONE);
    alone.config = text;
    TinyEngine engine(alone);
    engine.runner().capture({});
    EXPECT_EQ(run_on_ranks(2,
                           cudagraph::CudagraphMode::FULL_AND_PIECEWISE,
                           config::CompilationMode::NONE,
                           1,
                           text,
                           true),
              run_batches(engine, 1));
  }
  fmt::print("[measured] {} configs ran with divided layers\n", num_run);
  EXPECT_GE(num_run, 20);
}

TEST(RankEngines, run_a_thousand_steps_without_a_false_alarm) {
  const std::vector<float> logits = run_on_ranks(
      2, cudagraph::CudagraphMode::FULL_AND_PIECEWISE, config::CompilationMode::NONE, 250);
  EXPECT_FALSE(logits.empty());
}

// Runs one step on two ranks, where rank 1 has another batch, and returns what each rank throws.
std::array<std::string, 2> failures_of_different_batches(const TestBatch& of_rank_0,
                                                         const TestBatch& of_rank_1) {
  std::array<std::string, 2> failures;
  parallel::run_ranks(2, [&](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, rank),
                                 quick_options());
    TinyEngine engine(options_of(
        &ranks, cudagraph::CudagraphMode::FULL_AND_PIECEWISE, config::CompilationMode::NONE));
    engine.runner().capture({});
    if (rank == 1) {
      // As run_announced_steps(), but with a batch of its own.
      std::vector<std::byte> command(2048);
      ranks.broadcast(parallel::Operation::command, 0, command.data(), command.size());
    }
    const TestBatch& batch = rank == 0 ? of_rank_0 : of_rank_1;
    try {
      (void)engine.runner().execute(batch.requests(), batch.facts());
    } catch (const device::DeviceError& error) {
      EXPECT_TRUE(error.is_sticky());
      failures[static_cast<size_t>(rank)] = error.what();
    }
  });
  return failures;
}

TEST(RankEngines, name_the_rank_whose_step_differs) {
  const TestBatch decode(Mix::uniform_decode, 3, 8, 1);
  const TestBatch other_size(Mix::uniform_decode, 5, 8, 1);
  const TestBatch other_tokens(Mix::uniform_decode, 3, 8, 2);
  for (const TestBatch* other : {&other_size, &other_tokens}) {
    for (const std::string& failure : failures_of_different_batches(decode, *other)) {
      EXPECT_THAT(failure, HasSubstr("rank 1 is about to run step 1 as FULL"));
    }
  }
}

TEST(RankEngines, name_the_rank_with_another_capture_plan) {
  parallel::run_ranks(2, [](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, rank),
                                 quick_options());
    TinyEngine engine(options_of(
        &ranks,
        rank == 0 ? cudagraph::CudagraphMode::FULL : cudagraph::CudagraphMode::FULL_AND_PIECEWISE,
        config::CompilationMode::NONE));
    try {
      engine.runner().capture({});
      ADD_FAILURE() << "no difference was found";
    } catch (const parallel::RankError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 has another capture plan than rank 0"));
    }
  });
}

TEST(RankEngines, a_rank_that_is_lost_in_a_step_ends_the_step_of_the_others) {
  parallel::run_ranks(2, [](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    parallel::CommunicatorOptions options = quick_options();
    options.timeout = std::chrono::seconds(3);
    parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, rank), options);
    TinyEngine engine(options_of(
        &ranks, cudagraph::CudagraphMode::FULL_AND_PIECEWISE, config::CompilationMode::NONE));
    engine.runner().capture({});
    if (rank == 1) return;  // before the first step
    const TestBatch batch(Mix::uniform_decode, 3, 8, 1);
    for (int step = 0; step < 2; ++step) {
      try {
        (void)engine.runner().execute(batch.requests(), batch.facts());
        ADD_FAILURE() << "the step ran without rank 1";
      } catch (const device::DeviceError& error) {
        EXPECT_TRUE(error.is_sticky());
        EXPECT_THAT(error.what(), HasSubstr("rank 1 did not take part"));
      }
    }
  });
}

}  // namespace
}  // namespace reprise::testing
