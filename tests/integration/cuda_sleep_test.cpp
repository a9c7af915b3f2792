#include <gtest/gtest.h>

#include <array>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "reprise/api/loading/engine_memory.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/engine/engine_core.h"
#include "reprise/runner/memory_report.h"
#include "tests/integration/cuda_engine_machine.h"

// Tests of engines on CUDA that release memory while they sleep.
namespace reprise {
namespace {

using api::EngineMemory;
using api::EngineParts;
using api::SleepLevel;
using config::CompilationMode;
using cudagraph::CudagraphMode;
using testing::CudaEngineMachine;
using testing::TinyEngine;
using testing::TinyEngineOptions;

TinyEngineOptions small_options(CudaEngineMachine& machine, CompilationMode level) {
  // The weights take several granules each; the short table of positions takes less and stays.
  std::string config = testing::kHead64Config;
  config.replace(config.find("1024"), 4, "128");
  TinyEngineOptions options = machine.options(
      {.mode = CudagraphMode::FULL_AND_PIECEWISE, .level = level, .config = config});
  if (machine.is_real()) options.num_blocks = 4096;  // a cache of many granules of 2 MiB
  options.max_num_tokens = 8;
  options.max_num_reqs = 2;
  return options;
}

/// The parts of LLM that are needed to put an engine to sleep.
struct Sleeper {
  explicit Sleeper(CudaEngineMachine& machine, CompilationMode level = CompilationMode::NONE)
      : engine(small_options(machine, level)),
        memory(machine.device(), engine.parameters(), {engine.runner().kv_cache().memory()}) {}

  void wake_up(EngineParts parts = EngineParts::all()) {
    memory.wake_up(parts, [this] {
      ++num_reads;
      engine.parameters().reload(engine.weights());
    });
  }
  /// Greedy tokens of two requests.
  std::vector<std::vector<int32_t>> generate() {
    engine::EngineCore core(
        engine.runner(),
        {.scheduler = {.max_num_seqs = 2,
                       .max_num_batched_tokens = 8,
                       .max_model_len = 64,
                       .vocab_size = static_cast<int>(engine.config().vocab_size)}});
    std::vector<std::vector<int32_t>> tokens(2);
    uint64_t first_id = 0;
    for (int32_t i = 0; i < 2; ++i) {
      const auto id = core.add_request({1, 2, i + 3}, {.temperature = 0, .max_tokens = 4});
      if (i == 0) first_id = static_cast<uint64_t>(id);
    }
    while (core.has_unfinished_requests()) {
      for (const engine::EngineCore::Update& update : core.step()) {
        EXPECT_EQ(update.request->error(), "");
        if (!update.new_token_id) continue;
        tokens.at(static_cast<uint64_t>(update.request->id()) - first_id)
            .push_back(*update.new_token_id);
      }
    }
    engine.runner().wait();
    return tokens;
  }
  /// The bytes of the weights on the device.
  std::vector<std::byte> weights() {
    std::vector<std::byte> all;
    for (const device::BufferView& view : engine.parameters().memory()) {
      all.resize(all.size() + view.bytes);
      engine.execution().stream().copy_to_host(
          all.data() + all.size() - view.bytes, view.data, view.bytes);
    }
    return all;
  }

  TinyEngine engine;
  EngineMemory memory;
  int num_reads = 0;
};

/// A loaded engine that borrows everything from a sleeper, except its core.
struct Borrower : api::LoadedEngine {
  explicit Borrower(Sleeper& sleeper) {
    runner.reset(&sleeper.engine.runner());
    memory.reset(&sleeper.memory);
  }
  Borrower(const Borrower&) = delete;
  Borrower& operator=(const Borrower&) = delete;
  ~Borrower() {
    core.reset();
    (void)memory.release();
    (void)runner.release();
  }
};

class CudaSleep : public ::testing::TestWithParam<std::tuple<SleepLevel, CompilationMode>> {};

TEST_P(CudaSleep, gives_memory_back_and_wakes_to_the_same_tokens_from_the_same_graphs) {
  const auto [level, compilation] = GetParam();
  CudaEngineMachine machine;
  Sleeper sleeper(machine, compilation);
  const device::MemoryInfo start = machine.device().memory();  // with all code loaded
  runner::ModelRunner& runner = sleeper.engine.runner();
  for (const auto& record : runner.capture({}).records) EXPECT_EQ(record.failure, "");
  const std::vector<std::vector<int32_t>> tokens = sleeper.generate();
  const std::vector<std::byte> weights = sleeper.weights();
  const auto counters = runner.full_wrapper().counters();
  EXPECT_GT(counters.replays, 0U);
  for (int round = 1; round <= 2; ++round) {
    const device::MemoryInfo awake = machine.device().memory();
    const size_t free_awake = machine.free_bytes();
    sleeper.memory.sleep(level);
    EXPECT_EQ(sleeper.memory.sleeping(), EngineParts::all());
    const size_t gained = machine.free_bytes() - free_awake;
    EXPECT_EQ(gained, awake.allocated_here - machine.device().memory().allocated_here);
    const size_t cache = runner.kv_cache().memory().bytes;
    EXPECT_GE(gained, cache);
    if (!machine.is_real()) {  // on a real GPU such weights are smaller than a granule
      EXPECT_GE(gained, cache + sleeper.engine.weight_bytes() * 4 / 5);
      EXPECT_LE(gained, (cache + sleeper.engine.weight_bytes()) * 9 / 8);
    }
    sleeper.wake_up();
    EXPECT_FALSE(sleeper.memory.sleeping().any());
    EXPECT_EQ(sleeper.num_reads, level == SleepLevel::discard ? round : 0);
    EXPECT_FALSE(sleeper.engine.parameters().has_host_copy());
    EXPECT_EQ(machine.free_bytes(), free_awake);
    EXPECT_TRUE(sleeper.weights() == weights);
    EXPECT_EQ(sleeper.generate(), tokens);
  }
  EXPECT_EQ(runner.full_wrapper().counters().captures, counters.captures);
  EXPECT_GT(runner.full_wrapper().counters().replays, counters.replays);
  const std::array<const runner::ModelRunner*, 1> runners = {&runner};
  const runner::MemoryParts parts =
      runner::measure_memory(sleeper.engine.execution(),
                             runners,
                             start.total - start.free - start.allocated_here,
                             sleeper.engine.weight_bytes());
  if (!machine.is_real()) {  // a real GPU also reports the memory of other processes
    EXPECT_NEAR(static_cast<double>(parts.sum()),
                static_cast<double>(parts.reported),
                0.01 * static_cast<double>(parts.reported));
    EXPECT_EQ(machine.fake().driver().misuses(), std::vector<std::string>{});
  }
}

TEST(CudaSleep, gives_back_and_restores_the_memory_of_a_cache_that_has_grown) {
  CudaEngineMachine machine;
  TinyEngineOptions options = small_options(machine, CompilationMode::NONE);
  options.num_addressed_blocks = options.num_blocks;
  options.num_blocks = 2;
  TinyEngine engine(options);
  runner::ModelRunner& runner = engine.runner();
  (void)runner.capture({});
  runner.grow_caches(options.num_addressed_blocks / 2, 0);
  EngineMemory memory(machine.device(), engine.parameters(), {runner.kv_cache().memory()});
  const size_t awake = machine.device().memory().allocated_here;
  memory.sleep(SleepLevel::discard);
  EXPECT_LE(machine.device().memory().allocated_here, awake - runner.kv_cache().bytes());
  memory.wake_up(EngineParts::all(), [&] { engine.parameters().reload(engine.weights()); });
  EXPECT_EQ(machine.device().memory().allocated_here, awake);
  runner.grow_caches(options.num_addressed_blocks, 0);
  engine.randomize_kv(3);
  EXPECT_EQ(engine.save_kv().size(), runner.kv_cache().memory().bytes);
}

INSTANTIATE_TEST_SUITE_P(
    LevelsOfSleepAndCompilation,
    CudaSleep,
    ::testing::Combine(::testing::Values(SleepLevel::offload, SleepLevel::discard),
                       ::testing::Values(CompilationMode::NONE, CompilationMode::VLLM_COMPILE)),
    [](const auto& instance) {
      return fmt::format("level_{}_compilation_{}",
                         static_cast<int>(std::get<0>(instance.param)),
                         static_cast<int>(std::get<1>(instance.param)));
    });

TEST(CudaSleeper, parts_wake_one_by_one_and_sleep_gets_deeper) {
  CudaEngineMachine machine;
  Sleeper sleeper(machine);
  (void)sleeper.engine.runner().capture({});
  const auto tokens = sleeper.generate();
  const size_t free = machine.free_bytes();

  sleeper.memory.sleep(SleepLevel::pause);
  EXPECT_EQ(sleeper.memory.sleeping(), (EngineParts{.scheduling = true}));
  EXPECT_EQ(machine.free_bytes(), free);

  sleeper.memory.sleep(SleepLevel::offload);
  EXPECT_TRUE(sleeper.engine.parameters().has_host_copy());
  const size_t free_asleep = machine.free_bytes();
  sleeper.wake_up({.weights = true});
  EXPECT_EQ(sleeper.memory.sleeping(), (EngineParts{.kv_cache = true, .scheduling = true}));
  sleeper.memory.sleep(SleepLevel::offload);  // a second sleep after the weights were restored
  EXPECT_EQ(machine.free_bytes(), free_asleep);
  sleeper.wake_up({.kv_cache = true});
  EXPECT_EQ(sleeper.memory.sleeping(), (EngineParts{.weights = true, .scheduling = true}));
  sleeper.wake_up({.weights = true});
  EXPECT_FALSE(sleeper.memory.sleeping().any());
  EXPECT_EQ(sleeper.generate(), tokens);
  EXPECT_EQ(sleeper.num_reads, 0);

  sleeper.memory.sleep(SleepLevel::offload);
  sleeper.memory.sleep(SleepLevel::discard);
  EXPECT_FALSE(sleeper.engine.parameters().has_host_copy());
  sleeper.memory.sleep(SleepLevel::offload);  // does not change the earlier discard
  sleeper.wake_up();
  EXPECT_EQ(sleeper.num_reads, 1);
  EXPECT_EQ(sleeper.generate(), tokens);
  EXPECT_EQ(machine.free_bytes(), free);
}

TEST(CudaSleeper, weights_that_cannot_be_read_sleep_on) {
  CudaEngineMachine machine;
  Sleeper sleeper(machine);
  const auto tokens = sleeper.generate();
  sleeper.memory.sleep(SleepLevel::discard);
  EXPECT_THROW(sleeper.memory.wake_up(EngineParts::all(),
                                      [] { throw FileError("E_MISSING", "model", "w", "gone"); }),
               FileError);
  EXPECT_EQ(sleeper.memory.sleeping(), EngineParts::all());
  sleeper.wake_up();
  EXPECT_EQ(sleeper.generate(), tokens);
}

TEST(CudaSleeper, any_failing_call_leaves_it_awake_or_asleep_and_whole) {
  CudaEngineMachine machine;
  if (machine.is_real()) GTEST_SKIP() << "only the fake driver fails on demand";
  device::cuda::FakeDriver& driver = machine.fake().driver();
  Sleeper sleeper(machine);
  (void)sleeper.engine.runner().capture({});
  const auto tokens = sleeper.generate();
  const std::vector<std::byte> weights = sleeper.weights();
  const device::cuda::FakeResources resources = driver.resources();
  const size_t free = machine.free_bytes();
  for (const SleepLevel level : {SleepLevel::offload, SleepLevel::discard}) {
    for (const CUresult error : {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_OUT_OF_MEMORY}) {
      uint64_t k = 1;
      for (;; ++k) {
        bool has_thrown = false;
        driver.fail_call(k, error);
        try {
          sleeper.memory.sleep(level);
        } catch (const Error&) {
          has_thrown = true;
          EXPECT_FALSE(sleeper.memory.sleeping().any()) << driver.failed_call();
          EXPECT_FALSE(sleeper.engine.parameters().has_host_copy());
          EXPECT_EQ(driver.resources(), resources);
        }
        if (!has_thrown) {
          try {
            sleeper.wake_up();
            EXPECT_FALSE(sleeper.memory.sleeping().any());
          } catch (const Error&) {
            has_thrown = true;
            EXPECT_TRUE(sleeper.memory.sleeping().scheduling) << driver.failed_call();
          }
        }
        const std::string failed = driver.failed_call();
        driver.fail_call(0);
        if (failed.empty()) break;  // the scenario makes fewer than k calls
        // Errors of the wait before memory is unmapped are ignored; errors of the wait after
        // zeroing are not.
        if (failed != "cuStreamSynchronize") {
          EXPECT_EQ(has_thrown, failed != "cuMemUnmap" && failed != "cuStreamIsCapturing")
              << failed;
        }
        sleeper.wake_up();
        EXPECT_FALSE(sleeper.memory.sleeping().any());
        EXPECT_EQ(driver.resources(), resources) << failed;
        ASSERT_TRUE(sleeper.weights() == weights) << "call " << k << ", " << failed;
        ASSERT_EQ(sleeper.engine.save_kv().size(), sleeper.engine.kv_bytes().size());
      }
      EXPECT_GT(k, 50U);
    }
  }
  EXPECT_EQ(machine.free_bytes(), free);
  EXPECT_EQ(sleeper.generate(), tokens);
  EXPECT_EQ(driver.misuses(), std::vector<std::string>{});
}

TEST(CudaSleeper, a_lost_context_is_said_to_be_one) {
  CudaEngineMachine machine;
  if (machine.is_real()) GTEST_SKIP() << "only the fake driver fails on demand";
  Sleeper sleeper(machine);
  sleeper.memory.sleep(SleepLevel::offload);
  machine.fake().driver().fail_call(3, CUDA_ERROR_ILLEGAL_ADDRESS);
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      sleeper.wake_up();
      ADD_FAILURE();
    } catch (const device::DeviceError& error) {
      EXPECT_TRUE(error.is_sticky()) << error.what();
      EXPECT_NE(std::string(error.what()).find("restart"), std::string::npos) << error.what();
    }
    EXPECT_EQ(sleeper.memory.sleeping(), EngineParts::all());
  }
  machine.fake().driver().fail_call(0);
}

// The request ends while the step after its last one waits on the thread that computes steps.
TEST(CudaSleeper, a_step_that_no_request_waits_for_is_over_before_memory_goes) {
  CudaEngineMachine machine;
  if (machine.is_real()) GTEST_SKIP() << "only the fake driver delays a thread on demand";
  device::cuda::FakeDriver& driver = machine.fake().driver();
  Sleeper sleeper(machine);
  const auto tokens = sleeper.generate();
  Borrower loaded(sleeper);
  loaded.core = std::make_unique<engine::EngineCore>(
      sleeper.engine.runner(),
      engine::EngineCoreOptions{
          .scheduler = {.max_num_seqs = 2,
                        .max_num_batched_tokens = 8,
                        .max_model_len = 64,
                        .async_scheduling = true,
                        .vocab_size = static_cast<int>(sleeper.engine.config().vocab_size)}});
  std::atomic<int> num_steps = 0;
  driver.observe([&num_steps, host = std::this_thread::get_id()](std::string_view call) {
    if (std::this_thread::get_id() == host || call != "cuMemcpyHtoDAsync") return;
    if (++num_steps == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  const auto id = loaded.core->add_request({1, 2, 3}, {.temperature = 0, .max_tokens = 8});
  (void)loaded.core->step();
  (void)loaded.core->abort_request(id);
  ASSERT_NO_THROW(loaded.sleep(SleepLevel::offload));
  EXPECT_EQ(num_steps, 2);
  loaded.core.reset();
  driver.observe({});
  EXPECT_EQ(driver.misuses(), std::vector<std::string>{});
  sleeper.wake_up();
  EXPECT_EQ(sleeper.generate(), tokens);
}

TEST(CudaSleeper, a_gpu_without_virtual_memory_only_pauses) {
  CudaEngineMachine machine;
  if (machine.is_real()) GTEST_SKIP() << "GPUs have virtual memory";
  device::cuda::FakeDriver& driver = machine.fake().driver();
  driver.set_virtual_memory(false);
  const auto device = device::cuda::create_cuda_device(driver.api());
  const auto stream = device->create_stream();
  Sleeper other(machine);
  EngineMemory memory(
      *device, other.engine.parameters(), {other.engine.runner().kv_cache().memory()});
  for (const SleepLevel level : {SleepLevel::offload, SleepLevel::discard}) {
    EXPECT_THROW(memory.sleep(level), InvalidArgument);
    EXPECT_FALSE(memory.sleeping().any());
  }
  memory.sleep(SleepLevel::pause);
  memory.wake_up({.scheduling = true}, [] {});
  EXPECT_FALSE(memory.sleeping().any());
}

}  // namespace
}  // namespace reprise
