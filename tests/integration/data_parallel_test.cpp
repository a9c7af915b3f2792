#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "reprise/api/replicas/replica_messages.h"
#include "reprise/device/error.h"
#include "reprise/runner/data_parallel_steps.h"
#include "tests/integration/step_outcome.h"
#include "tests/integration/tiny_engine.h"
#include "tests/support/parallel/local_transport.h"
#include "tests/support/source_dir.h"

// Engines whose steps run together (data parallel in lockstep). Here they are threads of one
// process; data_parallel_test.py has processes.
namespace reprise::testing {
namespace {

using cudagraph::CudagraphRuntimeMode;
using ::testing::HasSubstr;

constexpr int kSize = 3;
constexpr int kNumSteps = 120;

/// The life of one engine of the group: a communicator, its group, and an engine.
struct Member {
  Member(int rank, const std::shared_ptr<parallel::LocalHub>& hub)
      : ranks(std::make_unique<parallel::LocalTransport>(hub, rank),
              {.timeout = std::chrono::seconds(60)}),
        group(ranks.group(parallel::GroupKind::data, all(hub->size()))),
        steps(*group),
        engine(options(steps)) {
    engine.runner().capture({});
  }

  static std::vector<int> all(int size) {
    std::vector<int> members;
    for (int i = 0; i < size; ++i) members.push_back(i);
    return members;
  }
  static TinyEngineOptions options(runner::DataParallelSteps& steps) {
    TinyEngineOptions options{.num_threads = 1, .dtype = DType::f32};
    options.data_parallel = &steps;
    return options;
  }

  parallel::Communicator ranks;
  std::unique_ptr<parallel::Communicator> group;
  runner::DataParallelSteps steps;
  TinyEngine engine;
};

// The batch of rank `rank` in step `step`: nothing in a third of the steps.
std::unique_ptr<TestBatch> batch_of(int rank, int step) {
  std::mt19937 random(static_cast<uint32_t>(step * 16 + rank));
  if (random() % 3 == 0 && rank != step % kSize) return nullptr;
  const auto tokens = static_cast<int32_t>(1 + random() % 16);
  // In half of the steps every rank decodes, so that uniform batches meet.
  const Mix mix = step % 2 == 0 ? Mix::uniform_decode : kMixes[random() % kMixes.size()];
  return std::make_unique<TestBatch>(mix, std::max(2, tokens), 8, static_cast<uint32_t>(step));
}

// The logits of one batch alone, without other engines.
std::vector<float> logits_alone(TinyEngine& engine, const TestBatch& batch) {
  return engine.logits(engine.runner().execute(batch.requests(), batch.facts()));
}

TEST(DataParallel, ranks_with_different_loads_run_the_same_mode_and_padded_size_in_every_step) {
  std::array<std::vector<cudagraph::Decision>, kSize> decisions;
  parallel::run_ranks(kSize, [&](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    Member member(rank, hub);
    TinyEngine alone({.num_threads = 1, .dtype = DType::f32});
    alone.runner().capture({});
    for (int step = 0; step < kNumSteps; ++step) {
      const std::unique_ptr<TestBatch> batch = batch_of(rank, step);
      if (batch == nullptr) {
        ASSERT_TRUE(member.engine.runner().execute_idle());
      } else {
        const runner::StepResult& result =
            member.engine.runner().execute(batch->requests(), batch->facts());
        EXPECT_LT(relative_distance(member.engine.logits(result), logits_alone(alone, *batch)),
                  1e-5)
            << "rank " << rank << ", step " << step;
      }
      decisions[static_cast<size_t>(rank)].push_back(member.engine.runner().last_result().decision);
    }
    // When no rank has work, the wave ends, and no rank runs anything.
    EXPECT_FALSE(member.engine.runner().execute_idle());
    EXPECT_FALSE(member.steps.is_wave_running());
    member.ranks.finish();
  });
  std::array<int, 3> steps_by_mode{};
  for (int step = 0; step < kNumSteps; ++step) {
    const auto index = static_cast<size_t>(step);
    const cudagraph::Decision& expected = decisions[0][index];
    ++steps_by_mode[static_cast<size_t>(expected.mode)];
    for (const auto& of_rank : decisions) {
      EXPECT_EQ(of_rank[index].mode, expected.mode) << "step " << step;
      EXPECT_EQ(of_rank[index].descriptor, expected.descriptor) << "step " << step;
    }
  }
  EXPECT_GE(steps_by_mode[static_cast<size_t>(CudagraphRuntimeMode::FULL)], 40);
  EXPECT_GE(steps_by_mode[static_cast<size_t>(CudagraphRuntimeMode::PIECEWISE)], 20);
}

/// An engine of a group whose engines share the experts of a model.
struct ExpertMember {
  ExpertMember(int rank,
               const std::shared_ptr<parallel::LocalHub>& hub,
               const TinyEngineOptions& base)
      : ranks(std::make_unique<parallel::LocalTransport>(hub, rank),
              {.timeout = std::chrono::seconds(60)}),
        group(ranks.group(parallel::GroupKind::data, Member::all(hub->size()))),
        experts(ranks.group(parallel::GroupKind::expert, Member::all(hub->size()))),
        steps(*group),
        engine(options(base, rank)) {
    engine.runner().capture({});
  }
  TinyEngineOptions options(TinyEngineOptions options, int rank) {
    options.data_parallel = &steps;
    options.op_ranks = experts.get();
    options.part = {.divides_experts = true, .engine = rank, .engines = experts->size()};
    return options;
  }

  parallel::Communicator ranks;
  std::unique_ptr<parallel::Communicator> group;
  std::unique_ptr<parallel::Communicator> experts;
  runner::DataParallelSteps steps;
  TinyEngine engine;
};

std::string expert_config() {
  std::ifstream file(std::filesystem::path(source_dir()) /
                     "tests/goldens/architectures/qwen3-moe/config.json");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// 5 experts among 3 engines. Engines without requests take part with rows of padding.
TEST(DataParallel, engines_that_share_experts_compute_the_logits_of_one_engine) {
  for (const auto level : {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
    for (const cudagraph::CudagraphMode mode : kModes) {
      SCOPED_TRACE(to_string(mode));
      TinyEngineOptions base{.mode = mode, .level = level, .num_threads = 1, .dtype = DType::f32};
      base.config = expert_config();
      parallel::run_ranks(kSize, [&](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
        ExpertMember member(rank, hub, base);
        EXPECT_EQ(member.engine.config().moe->of_rank->count, rank == 2 ? 1 : 2);
        TinyEngine alone(base);
        alone.runner().capture({});
        for (int step = 0; step < 24; ++step) {
          const std::unique_ptr<TestBatch> batch = batch_of(rank, step);
          if (batch == nullptr) {
            ASSERT_TRUE(member.engine.runner().execute_idle());
            continue;
          }
          const runner::StepResult& result =
              member.engine.runner().execute(batch->requests(), batch->facts());
          EXPECT_LT(relative_distance(member.engine.logits(result), logits_alone(alone, *batch)),
                    2e-5)
              << "rank " << rank << ", step " << step;
        }
        EXPECT_FALSE(member.engine.runner().execute_idle());
        member.ranks.finish();
      });
    }
  }
}

TEST(DataParallel, runs_a_thousand_steps_without_a_false_alarm) {
  parallel::run_ranks(kSize, [&](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    Member member(rank, hub);
    for (int step = 0; step < 1000; ++step) {
      if (const std::unique_ptr<TestBatch> batch = batch_of(rank, step)) {
        (void)member.engine.runner().execute(batch->requests(), batch->facts());
      } else {
        (void)member.engine.runner().execute_idle();
      }
    }
    member.ranks.finish();
  });
}

TEST(DataParallel, a_rank_that_ran_another_step_is_named_by_every_rank) {
  std::array<std::string, kSize> failures;
  parallel::run_ranks(kSize, [&](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    Member member(rank, hub);
    const TestBatch batch(Mix::uniform_decode, 4, 8, 1);
    (void)member.engine.runner().execute(batch.requests(), batch.facts());
    if (rank == 1) {
      cudagraph::Decision other = member.engine.runner().last_result().decision;
      other.descriptor.num_tokens += 1;
      member.steps.keep(other);
    }
    try {
      (void)member.engine.runner().execute(batch.requests(), batch.facts());
    } catch (const device::DeviceError& error) {
      EXPECT_TRUE(error.is_sticky());
      failures[static_cast<size_t>(rank)] = error.what();
    }
  });
  for (const std::string& failure : failures) {
    EXPECT_THAT(failure, HasSubstr("rank 1 ran data-parallel step 1 as FULL tokens=5"));
  }
}

TEST(DataParallel, a_rank_with_other_graphs_is_named_before_the_step) {
  parallel::run_ranks(2, [&](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    Member member(rank, hub);
    cudagraph::CudagraphDispatcher dispatcher = member.engine.runner().dispatcher();
    const runner::PlannedKeys keys(dispatcher);
    if (rank == 1) {
      ASSERT_TRUE(dispatcher.retire(keys.key(0).mode, keys.key(0).descriptor, "for the test"));
    }
    try {
      (void)member.steps.agree({.num_tokens = 1, .num_reqs = 1}, keys, dispatcher);
      ADD_FAILURE() << "no difference was found";
    } catch (const parallel::RankError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 has other graphs than rank 0"));
    }
  });
}

TEST(DataParallel, a_key_that_one_rank_retires_is_retired_on_all_ranks) {
  parallel::run_ranks(2, [&](int rank, const std::shared_ptr<parallel::LocalHub>& hub) {
    Member member(rank, hub);
    runner::ModelRunner& runner = member.engine.runner();
    const TestBatch batch(Mix::uniform_decode, 3, 8, 1);
    const auto step = [&] { return runner.execute(batch.requests(), batch.facts()).decision; };
    const cudagraph::Decision first = step();
    ASSERT_EQ(first.mode, CudagraphRuntimeMode::FULL);
    runner::InputBatch moved(runner.input_batch().limits(),
                             member.engine.execution().device(),
                             member.engine.execution().executor());
    // Acts as if the address of a buffer had changed on rank 1. The old buffer stays alive.
    if (rank == 1) std::swap(runner.input_batch(), moved);
    EXPECT_EQ(step().mode, rank == 1 ? CudagraphRuntimeMode::NONE : CudagraphRuntimeMode::FULL);
    // Rank 1 tells the others in the next step.
    (void)step();
    EXPECT_FALSE(runner.dispatcher().is_captured(first.mode, first.descriptor)) << rank;
    for (int i = 0; i < 20; ++i) (void)step();
    member.ranks.finish();
  });
}

TEST(DataParallel, merged_batches_are_uniform_only_if_every_batch_is) {
  const runner::DPMetadata idle;
  const runner::DPMetadata decode{
      .num_tokens = 4, .num_reqs = 4, .num_logits = 4, .query_len = 1, .is_uniform = 1};
  const runner::DPMetadata prefill{.num_tokens = 9, .num_reqs = 2, .num_logits = 2, .query_len = 1};
  const auto merge = [](std::vector<runner::DPMetadata> all) { return runner::merge_batches(all); };
  EXPECT_FALSE(merge({idle, idle}));
  EXPECT_TRUE(merge({idle, decode})->uniform);
  EXPECT_EQ(merge({decode, idle})->num_tokens, 4);
  EXPECT_FALSE(merge({decode, prefill})->uniform);
  EXPECT_EQ(merge({decode, prefill})->num_tokens, 9);
  EXPECT_EQ(merge({decode, prefill})->num_reqs, 4);
  EXPECT_EQ(merge({prefill, decode})->num_logits, 4);
}

TEST(ReplicaMessages, keep_every_member_and_refuse_what_is_cut) {
  api::AddMessage add{.id = 7, .prompt_token_ids = {1, 2, 3}, .priority = -2, .cache_salt = "salt"};
  add.params = {.temperature = 0.5F,
                .top_k = 3,
                .seed = 9,
                .stop = {"a", ""},
                .stop_token_ids = {4},
                .logprobs = 2,
                .logit_bias = {{5, 1.5F}},
                .bad_words_token_ids = {{1, 2}, {}}};
  const api::Bytes bytes = api::write_message(add);
  EXPECT_EQ(api::kind_of_message(bytes), api::MessageKind::add);
  const api::AddMessage read = api::read_add_message(bytes);
  EXPECT_EQ(read.params, add.params);
  EXPECT_EQ(read.prompt_token_ids, add.prompt_token_ids);
  EXPECT_EQ(read.priority, -2);
  EXPECT_EQ(read.cache_salt, "salt");
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_THROW((void)api::read_add_message(std::span(bytes).first(size)), Error);
  }

  engine::OutputDelta delta{.id = scheduler::RequestId{5}, .text = "x\n", .token_ids = {1, 2}};
  delta.logprobs = {{.token = {1, -0.5F, 2}, .top = {{3, -0.25F, 1}}}};
  delta.finished = true;
  delta.finish_reason = "stop";
  delta.stop_reason = std::string("end");
  const engine::OutputDelta arrived = api::read_delta_message(api::write_message(delta));
  EXPECT_EQ(arrived.text, delta.text);
  EXPECT_EQ(arrived.logprobs, delta.logprobs);
  EXPECT_EQ(arrived.stop_reason, delta.stop_reason);
  EXPECT_TRUE(arrived.finished);

  api::EngineStats stats;
  stats.requests = api::RequestHistograms(100);
  stats.requests.prompt_tokens.observe(7, 3);
  stats.decisions = {{.mode = CudagraphRuntimeMode::FULL, .count = 5}};
  api::EngineStats told;
  told.requests = api::RequestHistograms(100);
  api::read_stats_message(api::write_message(stats), told);
  EXPECT_EQ(told.requests.prompt_tokens.count(), 3U);
  EXPECT_EQ(told.requests.prompt_tokens.sum(), 21);
  EXPECT_EQ(told.decisions[0].count, 5U);
}

}  // namespace
}  // namespace reprise::testing
