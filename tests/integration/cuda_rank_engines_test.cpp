#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/device/error.h"
#include "reprise/runner/data_parallel_steps.h"
#include "reprise/runner/rank_steps.h"
#include "tests/integration/step_outcome.h"
#include "tests/integration/tiny_engine.h"
#include "tests/support/fake_cuda/gpu_ranks_fixture.h"
#include "tests/support/source_dir.h"

// Engines of several ranks as threads of one process, each with a fake GPU, or with one of the
// machine if there is a driver. One rank on the CPU is the oracle for logits; cuda_ranks_test.py
// has processes.
namespace reprise::testing {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using kernels::cuda::GpuRanksMachine;
using kernels::cuda::MachineKind;
using parallel::LocalHub;
using parallel::run_ranks;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int32_t kMostReqs = 4;

TinyEngineOptions base_options(CudagraphMode mode, CompilationMode level) {
  return {.mode = mode,
          .level = level,
          .max_num_tokens = 16,
          .max_num_reqs = kMostReqs,
          .num_threads = 1,
          .dtype = DType::f32};
}

std::string golden_config(std::string_view name) {
  std::ifstream file(std::filesystem::path(source_dir()) / "tests/goldens/architectures" / name /
                     "config.json");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<int> numbers(int begin, int count) {
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), begin);
  return all;
}

/// The GPU of one rank, connected with those of its groups.
class RankGpu {
 public:
  RankGpu(GpuRanksMachine& machine, int gpu, const std::vector<parallel::Communicator*>& groups)
      : machine_(&machine), device_(machine.create_device(gpu)) {
    for (parallel::Communicator* group : groups) {
      if (group == nullptr) continue;
      groups_.push_back(machine.join(*device_, *group));
    }
  }

  [[nodiscard]] TinyEngineOptions options(TinyEngineOptions options) {
    options.device = device_.get();
    options.num_warmups = 1;  // as in every start on a GPU
    options.make_executor = [this](device::Stream& stream, device::MemoryPool& pool) {
      std::vector<kernels::DeviceRanks*> groups;
      for (const auto& group : groups_) groups.push_back(group.get());
      return machine_->create_executor(stream, pool, std::move(groups));
    };
    return options;
  }

 private:
  GpuRanksMachine* machine_;
  std::unique_ptr<device::Device> device_;
  std::vector<std::unique_ptr<kernels::DeviceRanks>> groups_;
};

// The logits of a few batches one after the other, over one cache.
std::vector<float> run_batches(TinyEngine& engine, int rounds) {
  return run_mixes(engine, rounds, 11, kMostReqs);
}

// The ranks of an engine that runs `layout`. Calls `run` on each, after the captures.
void run_layout(const weights::RankOfModel& layout,
                const TinyEngineOptions& options,
                const std::function<void(parallel::Communicator&, TinyEngine&)>& run) {
  const auto size = static_cast<int>(layout.num_ranks());
  GpuRanksMachine machine(size, MachineKind::real_if_there);
  run_ranks(size, [&](int rank, const std::shared_ptr<LocalHub>& hub) {
    parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, rank),
                                 kernels::cuda::options_of_gpu_rank(rank));
    std::unique_ptr<parallel::Communicator> of_stage;
    TinyEngineOptions mine = options;
    mine.ranks = &ranks;
    mine.part = layout;
    mine.part.rank = rank;
    if (layout.tensor_ranks > 1 && layout.stages > 1) {
      const auto tensor_ranks = static_cast<int>(layout.tensor_ranks);
      of_stage = ranks.group(parallel::GroupKind::tensor,
                             numbers(rank / tensor_ranks * tensor_ranks, tensor_ranks));
      mine.op_ranks = of_stage.get();
    }
    RankGpu gpu(machine, rank, {&ranks, of_stage.get()});
    TinyEngine engine(gpu.options(mine));
    const cudagraph::CaptureReport report = engine.runner().capture({});
    for (const auto& record : report.records) EXPECT_EQ(record.failure, "");
    run(ranks, engine);
    ranks.finish();
  });
  EXPECT_THAT(machine.misuses(), IsEmpty());
}

// Rank 0's logits; the other ranks follow.
std::vector<float> run_on_ranks(const weights::RankOfModel& layout,
                                const TinyEngineOptions& options,
                                int rounds = 1) {
  std::vector<float> logits;
  run_layout(layout, options, [&](parallel::Communicator& ranks, TinyEngine& engine) {
    if (ranks.rank() != 0) return runner::run_announced_steps(ranks, engine.runner());
    logits = run_batches(engine, rounds);
    engine.runner().stop_other_ranks();
  });
  return logits;
}

// The logits of one rank that has the whole model, on the CPU.
std::vector<float> run_alone_on_the_cpu(const std::string& config, int rounds = 1) {
  TinyEngineOptions options = base_options(CudagraphMode::NONE, CompilationMode::NONE);
  options.config = config;
  TinyEngine engine(options);
  engine.runner().capture({});
  return run_batches(engine, rounds);
}

void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
}

// All modes of a layout: the logits of the CPU, and the same bits in every mode, so a replay has
// the bits of the eager run.
void expect_logits_of_one_rank(const weights::RankOfModel& layout,
                               const std::string& config,
                               std::initializer_list<CompilationMode> levels) {
  const std::vector<float> expected = run_alone_on_the_cpu(config);
  for (const CompilationMode level : levels) {
    std::vector<float> first;  // a level may have products of its own
    for (const CudagraphMode mode : kModes) {
      SCOPED_TRACE(::testing::Message()
                   << to_string(mode) << ", level " << static_cast<int>(level));
      TinyEngineOptions options = base_options(mode, level);
      options.config = config;
      const std::vector<float> logits = run_on_ranks(layout, options);
      ASSERT_EQ(logits.size(), expected.size());
      EXPECT_LT(relative_distance(logits, expected), 2e-5);
      if (first.empty()) first = logits;
      expect_same_bits(logits, first);
    }
  }
}

class CudaRankEngines : public ::testing::Test {
 protected:
  void SetUp() override { require_gpus(2); }
  static void require_gpus(int count) {
    if (kernels::cuda::num_gpus_for_ranks() < count) GTEST_SKIP() << "needs " << count << " GPUs";
  }
};

constexpr std::initializer_list<CompilationMode> kBothLevels = {CompilationMode::NONE,
                                                                CompilationMode::VLLM_COMPILE};

TEST_F(CudaRankEngines, that_divide_each_layer_compute_the_logits_of_one_rank_in_every_mode) {
  expect_logits_of_one_rank({.tensor_ranks = 2}, kTinyQwen3Config, kBothLevels);
  require_gpus(4);
  if (IsSkipped()) return;
  expect_logits_of_one_rank({.tensor_ranks = 4}, kTinyQwen3Config, {CompilationMode::VLLM_COMPILE});
}

TEST_F(CudaRankEngines, that_divide_the_layers_compute_the_logits_of_one_rank_in_every_mode) {
  expect_logits_of_one_rank({.stages = 2}, kTinyQwen3Config, kBothLevels);
}

// The sums within a stage and the transfers between stages are exchanges in two groups.
TEST_F(CudaRankEngines, that_divide_layers_and_each_layer_compute_the_logits_of_one_rank) {
  require_gpus(4);
  if (IsSkipped()) return;
  expect_logits_of_one_rank(
      {.tensor_ranks = 2, .stages = 2}, kTinyQwen3Config, {CompilationMode::VLLM_COMPILE});
}

TEST_F(CudaRankEngines, that_divide_experts_compute_the_logits_of_one_rank_in_every_mode) {
  for (const char* name : {"qwen3-moe", "deepseek-v2"}) {
    SCOPED_TRACE(name);
    expect_logits_of_one_rank({.tensor_ranks = 2, .divides_experts = true},
                              golden_config(name),
                              {CompilationMode::VLLM_COMPILE});
  }
}

TEST_F(CudaRankEngines, have_the_same_bits_with_passes_on_collectives) {
  config::CompilationConfig fused;
  fused.pass_config.fuse_allreduce_rms = true;
  config::CompilationConfig sequences;
  sequences.pass_config.enable_sp = true;
  sequences.pass_config.sp_min_token_num = 6;
  TinyEngineOptions options =
      base_options(CudagraphMode::FULL_AND_PIECEWISE, CompilationMode::VLLM_COMPILE);
  const std::vector<float> plain = run_on_ranks({.tensor_ranks = 2}, options);
  for (const config::CompilationConfig& compilation : {fused, sequences}) {
    options.compilation = compilation;
    expect_same_bits(run_on_ranks({.tensor_ranks = 2}, options), plain);
  }
}

// Every replay is compared with an eager run on all ranks.
TEST_F(CudaRankEngines, compare_replays_together_and_find_no_difference) {
  TinyEngineOptions options =
      base_options(CudagraphMode::FULL_AND_PIECEWISE, CompilationMode::NONE);
  options.shadow.rate = 1;
  options.verify_graphs = cudagraph::VerifyGraphs::strict;
  run_layout({.tensor_ranks = 2}, options, [](parallel::Communicator& ranks, TinyEngine& engine) {
    if (ranks.rank() == 0) {
      (void)run_batches(engine, 1);
      engine.runner().stop_other_ranks();
    } else {
      runner::run_announced_steps(ranks, engine.runner());
    }
    EXPECT_GT(engine.runner().shadow()->num_checks(), 0U);
    EXPECT_TRUE(engine.runner().shadow()->keys().empty());
  });
}

// Engines that share experts gather rows before them and scatter sums behind them. An engine
// without requests takes part with rows of padding.
TEST_F(CudaRankEngines, of_several_engines_share_experts) {
  constexpr int kEngines = 2;
  TinyEngineOptions base =
      base_options(CudagraphMode::FULL_AND_PIECEWISE, CompilationMode::VLLM_COMPILE);
  base.config = golden_config("qwen3-moe");
  GpuRanksMachine machine(kEngines, MachineKind::real_if_there);
  run_ranks(kEngines, [&](int rank, const std::shared_ptr<LocalHub>& hub) {
    parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, rank),
                                 kernels::cuda::options_of_gpu_rank(rank));
    const auto group = ranks.group(parallel::GroupKind::data, numbers(0, kEngines));
    const auto experts = ranks.group(parallel::GroupKind::expert, numbers(0, kEngines));
    runner::DataParallelSteps steps(*group);
    RankGpu gpu(machine, rank, {experts.get()});
    TinyEngineOptions options = gpu.options(base);
    options.data_parallel = &steps;
    options.op_ranks = experts.get();
    options.part = {.divides_experts = true, .engine = rank, .engines = kEngines};
    TinyEngine engine(options);
    engine.runner().capture({});
    TinyEngine alone(base);
    alone.runner().capture({});
    for (int step = 0; step < 6; ++step) {
      if (step % kEngines == rank && step < 4) {
        ASSERT_TRUE(engine.runner().execute_idle());
        continue;
      }
      const Mix mix =
          step % 3 == 0 ? Mix::uniform_decode : kMixes[static_cast<size_t>(step) % kMixes.size()];
      const TestBatch batch(mix, 3, kMostReqs, static_cast<uint32_t>(step));
      const std::vector<float> got =
          engine.logits(engine.runner().execute(batch.requests(), batch.facts()));
      const std::vector<float> want =
          alone.logits(alone.runner().execute(batch.requests(), batch.facts()));
      EXPECT_LT(relative_distance(got, want), 2e-5) << "rank " << rank << ", step " << step;
    }
    EXPECT_FALSE(engine.runner().execute_idle());
    ranks.finish();
  });
  EXPECT_THAT(machine.misuses(), IsEmpty());
}

// Rank 1 agrees to the step and is lost before its GPU takes part.
TEST_F(CudaRankEngines, a_rank_that_is_lost_in_a_step_is_named_and_ends_the_step_of_the_others) {
  GpuRanksMachine machine(2, MachineKind::real_if_there);
  std::atomic<bool> is_over = false;
  run_ranks(2, [&](int rank, const std::shared_ptr<LocalHub>& hub) {
    parallel::CommunicatorOptions options = kernels::cuda::options_of_gpu_rank(rank);
    options.silence = std::chrono::seconds(2);
    parallel::Communicator ranks(std::make_unique<parallel::LocalTransport>(hub, rank), options);
    RankGpu gpu(machine, rank, {&ranks});
    TinyEngineOptions mine =
        gpu.options(base_options(CudagraphMode::FULL_AND_PIECEWISE, CompilationMode::NONE));
    mine.ranks = &ranks;
    mine.part = {.rank = rank, .tensor_ranks = 2};
    TinyEngine engine(mine);
    engine.runner().capture({});
    const TestBatch batch(Mix::uniform_decode, 3, kMostReqs, 1);
    if (rank == 1) {
      // Takes the announcement and agrees to it, as run_announced_steps() does, and no more.
      std::vector<std::byte> command(2048);
      ranks.broadcast(parallel::Operation::command, 0, command.data(), command.size());
      const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
      (void)runner::agree_on_step(ranks, 1, decision, batch.requests());
      hub->silence(1);
      while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ranks.fail("rank 1 ends");  // a process would just end
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    try {
      (void)engine.runner().execute(batch.requests(), batch.facts());
      engine.runner().wait();
      ADD_FAILURE() << "the step ran without rank 1";
    } catch (const device::DeviceError& error) {
      EXPECT_TRUE(error.is_sticky());
      EXPECT_THAT(error.what(), HasSubstr("rank 1 has sent no heartbeat"));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
    is_over = true;
  });
  EXPECT_THAT(machine.misuses(), IsEmpty());
}

}  // namespace
}  // namespace reprise::testing
