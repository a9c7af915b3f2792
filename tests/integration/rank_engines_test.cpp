#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/device/error.h"
#include "reprise/runner/rank_steps.h"
#include "tests/integration/hostile_kernels.h"
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
  if (ranks != nullptr) options.part = {.rank = ranks->rank(), .tensor_ranks = ranks->size()};
  return options;
}

// The logits of a few batches one after the other, over one cache.
std::vector<float> run_batches(TinyEngine& engine, int rounds) {
  return run_mixes(engine, rounds, 21, 8);
}

// The ranks of an engine that runs `layout`, as threads. Calls `run` on each.
void run_layout(const weights::RankOfModel& layout,
                TinyEngineOptions options,
                const std::function<void(parallel::Communicator&, TinyEngine&)>& run) {
  const auto size = static_cast<int>(layout.num_ranks());
  parallel::run_ranks(size, [&](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, rank),
                                 quick_options());
    std::unique_ptr<parallel::Communicator> of_stage;
    TinyEngineOptions mine = options;
    mine.ranks = &ranks;
    mine.part = layout;
    mine.part.rank = rank;
    if (layout.tensor_ranks > 1 && layout.stages > 1) {
      std::vector<int> members(static_cast<size_t>(layout.tensor_ranks));
      std::iota(members.begin(),
                members.end(),
                static_cast<int>(mine.part.stage() * layout.tensor_ranks));
      of_stage = ranks.group(parallel::GroupKind::tensor, members);
      mine.op_ranks = of_stage.get();
    }
    TinyEngine engine(mine);
    engine.runner().capture({});
    run(ranks, engine);
    ranks.finish();
  });
}

// Rank 0's logits; the other ranks follow.
std::vector<float> run_on_ranks(const weights::RankOfModel& layout,
                                cudagraph::CudagraphMode mode,
                                config::CompilationMode level,
                                int rounds,
                                const std::string& config = kTinyQwen3Config) {
  std::vector<float> logits;
  TinyEngineOptions options = options_of(nullptr, mode, level);
  options.config = config;
  run_layout(layout, options, [&](parallel::Communicator& ranks, TinyEngine& engine) {
    if (ranks.rank() == 0) {
      logits = run_batches(engine, rounds);
      engine.runner().stop_other_ranks();
    } else {
      runner::run_announced_steps(ranks, engine.runner());
    }
  });
  return logits;
}

// The logits of one rank that has the whole model.
std::vector<float> run_alone(const std::string& config, int rounds) {
  TinyEngineOptions options =
      options_of(nullptr, cudagraph::CudagraphMode::NONE, config::CompilationMode::NONE);
  options.config = config;
  TinyEngine engine(options);
  engine.runner().capture({});
  return run_batches(engine, rounds);
}

weights::RankOfModel tensor_ranks(int64_t ranks) { return {.tensor_ranks = ranks}; }
weights::RankOfModel stages(int64_t ranks) { return {.stages = ranks}; }
weights::RankOfModel expert_ranks(int64_t ranks) {
  return {.tensor_ranks = ranks, .divides_experts = true};
}

std::string golden_config(std::string_view name) {
  std::ifstream file(std::filesystem::path(source_dir()) / "tests/goldens/architectures" / name /
                     "config.json");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(RankEngines, compute_the_logits_of_one_rank_in_every_mode) {
  const std::vector<float> expected = run_alone(kTinyQwen3Config, 2);
  for (const int size : {2, 4}) {
    std::vector<float> first;
    for (const cudagraph::CudagraphMode mode : kModes) {
      for (const auto level :
           {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
        SCOPED_TRACE(::testing::Message() << size << " ranks, " << to_string(mode));
        const std::vector<float> logits = run_on_ranks(tensor_ranks(size), mode, level, 2);
        ASSERT_EQ(logits.size(), expected.size());
        EXPECT_LT(relative_distance(logits, expected), 1e-5);
        // Modes, levels and repeats must not change a bit.
        if (first.empty()) first = logits;
        EXPECT_EQ(std::memcmp(logits.data(), first.data(), logits.size() * sizeof(float)), 0);
      }
    }
  }
}

// The number of places that `pass` rewrote, over all programs of an engine.
size_t num_matches(const compile::CompilationReport& report, std::string_view pass) {
  size_t matches = 0;
  for (const compile::PipelineReport& program : report.pass_reports) {
    matches += program.num_matches(pass);
  }
  return matches;
}

struct LogitsOfPass {
  std::vector<float> logits;
  size_t num_matches = 0;  // of the pass
};

// Level 3 with these passes.
LogitsOfPass run_with_pass(int size,
                           cudagraph::CudagraphMode mode,
                           std::string_view pass,
                           const config::CompilationConfig& compilation) {
  LogitsOfPass found;
  TinyEngineOptions options = options_of(nullptr, mode, config::CompilationMode::VLLM_COMPILE);
  options.compilation = compilation;
  run_layout(tensor_ranks(size), options, [&](parallel::Communicator& ranks, TinyEngine& engine) {
    if (ranks.rank() != 0) return runner::run_announced_steps(ranks, engine.runner());
    found.num_matches = num_matches(engine.compilation(), pass);
    found.logits = run_batches(engine, 2);
    engine.runner().stop_other_ranks();
  });
  return found;
}

void expect_same_bits_with_pass(std::string_view pass, const config::CompilationConfig& with) {
  for (const int size : {2, 4}) {
    for (const cudagraph::CudagraphMode mode : kModes) {
      SCOPED_TRACE(::testing::Message() << size << " ranks, " << to_string(mode));
      const LogitsOfPass plain = run_with_pass(size, mode, pass, {});
      const LogitsOfPass fused = run_with_pass(size, mode, pass, with);
      EXPECT_EQ(plain.num_matches, 0U);
      EXPECT_GT(fused.num_matches, 0U);
      ASSERT_EQ(fused.logits.size(), plain.logits.size());
      const size_t bytes = plain.logits.size() * sizeof(float);
      EXPECT_EQ(std::memcmp(fused.logits.data(), plain.logits.data(), bytes), 0);
    }
  }
}

TEST(RankEngines, have_the_same_bits_with_fused_all_reduces_in_every_mode) {
  config::CompilationConfig with;
  with.pass_config.fuse_allreduce_rms = true;
  expect_same_bits_with_pass("fuse_allreduce_rms", with);
}

// Some batches have sizes that the ranks can divide and some do not, on both sides of the
// threshold.
TEST(RankEngines, have_the_same_bits_with_parallel_sequences_in_every_mode) {
  config::CompilationConfig with;
  with.pass_config.enable_sp = true;
  with.pass_config.sp_min_token_num = 6;
  expect_same_bits_with_pass("parallelize_sequence", with);
  with.use_inductor_graph_partition = true;  // so that PIECEWISE stays
  expect_same_bits_with_pass("parallelize_sequence", with);
}

// The configs of the golden checkpoints, by path. They run with made-up weights.
std::map<std::string, std::string> golden_configs() {
  std::map<std::string, std::string> configs;
  const std::filesystem::path folder = std::filesystem::path(source_dir()) / "tests/goldens";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const bool is_of_pooling = entry.path().parent_path().filename() == "1_Pooling";
    if (entry.path().filename() != "config.json" || is_of_pooling) continue;
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    // Folders of tokenizers name no architecture.
    if (text.find("\"architectures\"") != std::string::npos) configs[entry.path().string()] = text;
  }
  return configs;
}

// Whether this model cannot be divided among ranks; then the message must name the option.
bool is_refused(const std::string& text,
                const weights::RankOfModel& layout,
                const std::string& option) {
  try {
    (void)weights::config_of_rank(weights::parse_model_config(text, "config.json").config, layout);
  } catch (const InvalidArgument& refusal) {
    EXPECT_THAT(refusal.what(), HasSubstr(option));
    return true;
  }
  return false;
}

TEST(RankEngines, compute_the_logits_of_one_rank_or_refuse_every_architecture) {
  int num_run = 0;
  for (const auto& [path, text] : golden_configs()) {
    SCOPED_TRACE(path);
    if (is_refused(text, tensor_ranks(2), "--tensor-parallel-size")) continue;
    ++num_run;
    TinyEngineOptions alone = options_of(
        nullptr, cudagraph::CudagraphMode::FULL_AND_PIECEWISE, config::CompilationMode::NONE);
    alone.config = text;
    TinyEngine engine(alone);
    engine.runner().capture({});
    const std::vector<float> expected = run_batches(engine, 1);
    for (const auto level :
         {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
      const std::vector<float> logits = run_on_ranks(
          tensor_ranks(2), cudagraph::CudagraphMode::FULL_AND_PIECEWISE, level, 1, text);
      ASSERT_EQ(logits.size(), expected.size());
      EXPECT_LT(relative_distance(logits, expected), 2e-5);
    }
  }
  fmt::print("[measured] {} configs ran on two ranks\n", num_run);
  EXPECT_GE(num_run, 25);
}

TEST(RankEngines, that_divide_the_layers_compute_the_bits_of_one_rank_in_every_mode) {
  const std::vector<float> expected = run_alone(kTinyQwen3Config, 2);
  for (const cudagraph::CudagraphMode mode : kModes) {
    for (const auto level :
         {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
      SCOPED_TRACE(to_string(mode));
      EXPECT_EQ(run_on_ranks(stages(2), mode, level, 2), expected);
    }
  }
}

TEST(RankEngines, that_divide_the_layers_run_or_refuse_every_architecture) {
  int num_run = 0;
  for (const auto& [path, text] : golden_configs()) {
    SCOPED_TRACE(path);
    if (is_refused(text, stages(2), "--pipeline-parallel-size")) continue;
    ++num_run;
    TinyEngineOptions alone = options_of(
        nullptr, cudagraph::CudagraphMode::FULL_AND_PIECEWISE, config::CompilationMode::NONE);
    alone.config = text;
    TinyEngine engine(alone);
    engine.runner().capture({});
    EXPECT_EQ(run_on_ranks(stages(2),
                           cudagraph::CudagraphMode::FULL_AND_PIECEWISE,
                           config::CompilationMode::NONE,
                           1,
                           text),
              run_batches(engine, 1));
  }
  fmt::print("[measured] {} configs ran with divided layers\n", num_run);
  EXPECT_GE(num_run, 20);
}

// A stage is a group of tensor ranks: the sums within a stage and the transfers between stages are
// exchanges in two groups.
TEST(RankEngines, that_divide_layers_and_each_layer_compute_the_logits_of_one_rank) {
  for (const char* name : {"", "qwen3-moe"}) {
    const std::string config = *name == 0 ? kTinyQwen3Config : golden_config(name);
    const std::vector<float> expected = run_alone(config, 2);
    const weights::RankOfModel layout = {.tensor_ranks = 2, .stages = 2};
    std::vector<float> first;
    for (const cudagraph::CudagraphMode mode : kModes) {
      for (const auto level :
           {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
        SCOPED_TRACE(::testing::Message() << name << " " << to_string(mode));
        const std::vector<float> logits = run_on_ranks(layout, mode, level, 2, config);
        ASSERT_EQ(logits.size(), expected.size());
        EXPECT_LT(relative_distance(logits, expected), 2e-5);
        if (first.empty()) first = logits;
        EXPECT_EQ(std::memcmp(logits.data(), first.data(), logits.size() * sizeof(float)), 0);
      }
    }
  }
}

// qwen3-moe has 5 experts, which no number of ranks here divides evenly.
TEST(RankEngines, that_divide_experts_compute_the_logits_of_one_rank_in_every_mode) {
  for (const char* name : {"qwen3-moe", "mixtral", "deepseek-v2"}) {
    const std::string config = golden_config(name);
    const std::vector<float> expected = run_alone(config, 2);
    for (const int size : {2, 4}) {
      weights::RankOfModel layout = expert_ranks(size);
      std::vector<float> first;
      for (const cudagraph::CudagraphMode mode : kModes) {
        for (const auto level :
             {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
          SCOPED_TRACE(::testing::Message()
                       << name << " on " << size << " ranks, " << to_string(mode));
          const std::vector<float> logits = run_on_ranks(layout, mode, level, 2, config);
          ASSERT_EQ(logits.size(), expected.size());
          EXPECT_LT(relative_distance(logits, expected), 2e-5);
          if (first.empty()) first = logits;
          EXPECT_EQ(std::memcmp(logits.data(), first.data(), logits.size() * sizeof(float)), 0);
        }
      }
    }
  }
}

TEST(RankEngines, that_divide_experts_run_or_refuse_every_architecture) {
  int num_run = 0;
  for (const auto& [path, text] : golden_configs()) {
    SCOPED_TRACE(path);
    if (is_refused(text, expert_ranks(2), "--")) continue;
    ++num_run;
    const std::vector<float> logits = run_on_ranks(expert_ranks(2),
                                                   cudagraph::CudagraphMode::FULL_AND_PIECEWISE,
                                                   config::CompilationMode::NONE,
                                                   1,
                                                   text);
    EXPECT_LT(relative_distance(logits, run_alone(text, 1)), 2e-5);
  }
  fmt::print("[measured] {} configs ran with divided experts\n", num_run);
  EXPECT_GE(num_run, 8);
}

TEST(RankEngines, that_divide_experts_hold_only_their_experts) {
  const std::string config = golden_config("qwen3-moe");
  std::array<size_t, 4> bytes{};
  std::array<int64_t, 4> experts{};
  run_layout(
      expert_ranks(4),
      [&] {
        TinyEngineOptions options =
            options_of(nullptr, cudagraph::CudagraphMode::NONE, config::CompilationMode::NONE);
        options.config = config;
        return options;
      }(),
      [&](parallel::Communicator& ranks, TinyEngine& engine) {
        const auto rank = static_cast<size_t>(ranks.rank());
        bytes[rank] = engine.weight_bytes();
        experts[rank] = engine.config().moe->of_rank->count;
      });
  EXPECT_EQ(experts, (std::array<int64_t, 4>{2, 1, 1, 1}));
  // The difference is two layers with experts, each of which is three matrices of 20 x 32 in
  // float32.
  EXPECT_EQ(bytes[0] - bytes[1], size_t{2} * 3 * 20 * 32 * sizeof(float));
  EXPECT_EQ(bytes[1], bytes[3]);
}

TEST(RankEngines, run_a_thousand_steps_without_a_false_alarm) {
  for (const weights::RankOfModel& layout :
       {tensor_ranks(2), stages(2), weights::RankOfModel{.tensor_ranks = 2, .stages = 2}}) {
    const std::vector<float> logits = run_on_ranks(
        layout, cudagraph::CudagraphMode::FULL_AND_PIECEWISE, config::CompilationMode::NONE, 250);
    EXPECT_FALSE(logits.empty());
  }
}

// Runs one step on two ranks, with a different batch on rank 1, and returns the error of each rank.
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
      // Like run_announced_steps(), but with a batch of its own.
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

enum class Fault : uint8_t {
  none,
  wrong_on_rank_0,  // and so, by the sums, on both
  wrong_on_rank_1,
  input_on_rank_1,  // which rank 0 does not see
  moved_on_rank_1,
};

TEST(RankEngines, compare_replays_together_and_quarantine_a_graph_that_is_wrong_on_one_rank) {
  std::vector<float> expected;
  for (const Fault fault : {Fault::none,
                            Fault::wrong_on_rank_0,
                            Fault::wrong_on_rank_1,
                            Fault::input_on_rank_1,
                            Fault::moved_on_rank_1}) {
    SCOPED_TRACE(static_cast<int>(fault));
    std::vector<float> logits;
    std::array<size_t, 2> num_keys{};
    std::array<uint64_t, 2> num_checks{};
    parallel::run_ranks(2, [&](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
      parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, rank),
                                   quick_options());
      TinyEngineOptions options = options_of(
          &ranks, cudagraph::CudagraphMode::FULL_AND_PIECEWISE, config::CompilationMode::NONE);
      options.dtype = DType::bf16;
      options.shadow.rate = 1;
      const bool is_wrong = (rank == 0 && fault == Fault::wrong_on_rank_0) ||
                            (rank == 1 && fault == Fault::wrong_on_rank_1);
      if (is_wrong) options.make_executor = hostile_executor(plant_missing_node);
      if (rank == 1 && fault == Fault::input_on_rank_1) {
        options.make_executor = hostile_executor(plant_written_input);
      }
      TinyEngine engine(options);
      engine.runner().capture({});
      runner::InputBatch& inputs = engine.runner().input_batch();
      runner::InputBatch moved(
          inputs.limits(), engine.execution().device(), engine.execution().executor());
      if (rank == 1 && fault == Fault::moved_on_rank_1) std::swap(inputs, moved);
      if (rank == 0) {
        logits = run_batches(engine, 2);
        engine.runner().stop_other_ranks();
      } else {
        runner::run_announced_steps(ranks, engine.runner());
      }
      num_keys[static_cast<size_t>(rank)] = engine.runner().shadow()->keys().size();
      num_checks[static_cast<size_t>(rank)] = engine.runner().shadow()->num_checks();
      ranks.finish();
    });
    if (fault == Fault::none) expected = logits;
    EXPECT_EQ(logits, expected);
    EXPECT_EQ(num_checks[0], num_checks[1]);
    EXPECT_GT(num_checks[0], 0U);
    EXPECT_EQ(num_keys[0], num_keys[1]);
    const bool is_wrong = fault != Fault::none && fault != Fault::moved_on_rank_1;
    EXPECT_EQ(num_keys[0] > 0, is_wrong);
  }
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
