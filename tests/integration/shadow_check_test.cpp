#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "reprise/device/cpu/cpu_device.h"
#include "tests/integration/hostile_kernels.h"
#include "tests/integration/step_outcome.h"

// Replays are compared with eager runs of the same steps. Without a failure none differs; each
// planted failure is found, answered with the right result, and never replayed again.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using cudagraph::DispatchReason;
using testing::kMixes;
using testing::Mix;
using testing::TestBatch;
using testing::TinyEngine;
using testing::TinyEngineOptions;

std::vector<float> execute(TinyEngine& engine, const TestBatch& batch) {
  return engine.logits(engine.runner().execute(batch.requests(), batch.facts()));
}

void capture(TinyEngine& engine) {
  for (const auto& record : engine.runner().capture({}).records) EXPECT_EQ(record.failure, "");
}

// --- no false alarms ---

class ShadowedModel
    : public ::testing::TestWithParam<std::tuple<const char*, CudagraphMode, CompilationMode>> {};

TEST_P(ShadowedModel, has_no_difference_and_the_bits_of_an_engine_without_checks) {
  const auto [config, mode, level] = GetParam();
  TinyEngineOptions options{.mode = mode, .level = level, .config = config};
  TinyEngine plain(options);
  options.shadow = {.rate = 1};
  TinyEngine engine(options);
  capture(plain);
  capture(engine);
  plain.randomize_kv(11);
  engine.randomize_kv(11);
  uint32_t seed = 100;
  uint64_t num_replays = 0;
  for (const Mix mix : kMixes) {
    for (const int32_t num_tokens : {1, 3, 8, 13, 16, 24, 31}) {
      if (mix == Mix::uniform_decode && num_tokens > 16) continue;
      const TestBatch batch(mix, num_tokens, 16, seed++);
      const std::vector<float> expected = execute(plain, batch);
      ASSERT_EQ(execute(engine, batch), expected) << to_string(mix) << ' ' << num_tokens;
      ASSERT_EQ(engine.save_kv(), plain.save_kv()) << to_string(mix) << ' ' << num_tokens;
      const runner::StepResult& result = engine.runner().last_result();
      EXPECT_EQ(result.decision, plain.runner().last_result().decision);
      EXPECT_EQ(engine.runner().last_launches(), plain.runner().last_launches());
      num_replays += result.decision.mode == CudagraphRuntimeMode::NONE ? 0 : 1;
    }
  }
  EXPECT_EQ(engine.runner().shadow()->num_checks(), num_replays);
  EXPECT_EQ(engine.runner().shadow()->num_differences(), 0U);
  EXPECT_EQ(num_replays > 0, mode != CudagraphMode::NONE);
}

std::string model_name(const char* config) {
  const std::string text(config);
  const size_t begin = text.find("model_type\": \"") + 14;
  return text.substr(begin, text.find('"', begin) - begin);
}

INSTANTIATE_TEST_SUITE_P(models_modes_and_levels,
                         ShadowedModel,
                         ::testing::Combine(::testing::Values(testing::kTinyQwen3Config,
                                                              testing::kTinyDeepseekConfig,
                                                              testing::kTinyBambaConfig,
                                                              testing::kTinyQwen3NextConfig,
                                                              testing::kTinyLfm2Config),
                                            ::testing::ValuesIn(testing::kModes),
                                            ::testing::Values(CompilationMode::NONE,
                                                              CompilationMode::VLLM_COMPILE)),
                         [](const auto& param_info) {
                           return fmt::format("{}_{}_{}",
                                              model_name(std::get<0>(param_info.param)),
                                              to_string(std::get<1>(param_info.param)),
                                              to_string(std::get<2>(param_info.param)));
                         });

/// A CPU device that denies the host access to its memory, as every GPU does.
class HiddenDevice final : public device::Device {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "hidden"; }
  [[nodiscard]] std::string description() const override { return inner_->description(); }
  [[nodiscard]] device::Buffer allocate(size_t bytes) override { return inner_->allocate(bytes); }
  [[nodiscard]] std::unique_ptr<device::MemoryPool> create_pool() override {
    return inner_->create_pool();
  }
  [[nodiscard]] std::unique_ptr<device::Stream> create_stream() override {
    return inner_->create_stream();
  }
  [[nodiscard]] std::unique_ptr<device::Event> create_event() override {
    return inner_->create_event();
  }
  [[nodiscard]] std::unique_ptr<device::GraphExec> instantiate(
      const device::Graph& graph) override {
    return inner_->instantiate(graph);
  }
  [[nodiscard]] device::MemoryInfo memory() const override { return inner_->memory(); }

 private:
  void free(device::BufferView /*memory*/) noexcept override {}  // buffers belong to the inner one

  std::unique_ptr<device::Device> inner_ = device::create_cpu_device({.num_threads = 1});
};

TEST(ShadowCheck, copies_to_the_host_what_the_host_cannot_read) {
  HiddenDevice device;
  TinyEngine engine({.device = &device, .shadow = {.rate = 1}});
  capture(engine);
  engine.randomize_kv(3);
  for (const Mix mix : kMixes) (void)execute(engine, TestBatch(mix, 13, 16, 5));
  EXPECT_GT(engine.runner().shadow()->num_checks(), 2U);
  EXPECT_EQ(engine.runner().shadow()->num_differences(), 0U);

  TinyEngine hostile({.mode = CudagraphMode::FULL,
                      .device = &device,
                      .make_executor = testing::hostile_executor(testing::plant_missing_node),
                      .shadow = {.rate = 1}});
  capture(hostile);
  (void)execute(hostile, TestBatch(Mix::uniform_decode, 5, 16, 5));
  EXPECT_EQ(hostile.runner().shadow()->num_differences(), 1U);
}

TEST(ShadowCheck, chooses_the_share_of_replays_that_was_asked_for_in_the_same_way_each_time) {
  std::array<uint64_t, 2> num_checks{};
  for (uint64_t& count : num_checks) {
    TinyEngine engine({.mode = CudagraphMode::FULL, .shadow = {.rate = 0.1}});
    capture(engine);
    const TestBatch batch(Mix::uniform_decode, 2, 16, 7);
    for (int step = 0; step < 1000; ++step) {
      (void)engine.runner().execute(batch.requests(), batch.facts());
    }
    count = engine.runner().shadow()->num_checks();
  }
  EXPECT_EQ(num_checks[0], num_checks[1]);
  EXPECT_GT(num_checks[0], 70U);
  EXPECT_LT(num_checks[0], 130U);
}

TEST(ShadowCheck, needs_no_memory_at_rate_0) {
  TinyEngine engine({.mode = CudagraphMode::FULL});
  EXPECT_FALSE(engine.runner().shadow()->is_on());
  EXPECT_EQ(engine.runner().shadow()->bytes(), 0U);
}

// --- planted failures ---

struct Failure {
  const char* name;
  void (*plant)(kernels::KernelTable&);
  runner::StepOutput first;  // the output in which it shows first
  std::string config = testing::kTinyQwen3Config;
  const attention::BackendInfo* attention = nullptr;
  bool is_between_pieces = false;  // the kernel is in no PIECEWISE graph
};

std::vector<Failure> failures() {
  using runner::StepOutput;
  return {{"stale_address", testing::plant_stale_address, StepOutput::kv_cache},
          {"missing_node", testing::plant_missing_node, StepOutput::kv_cache},
          {"baked_tokens", testing::plant_baked_tokens, StepOutput::kv_cache},
          {"aliased_state",
           testing::plant_aliased_state,
           StepOutput::kv_cache,
           testing::kTinyBambaConfig,
           nullptr,
           true},
          {"stale_plan",
           testing::plant_stale_plan,
           StepOutput::kv_cache,
           testing::kTinyQwen3Config,
           &attention::find_attention_backend("FLASHINFER"),
           true},
          {"stale_positions", testing::plant_stale_positions, StepOutput::kv_cache}};
}

class PlantedFailure : public ::testing::TestWithParam<std::tuple<size_t, CudagraphMode>> {
 protected:
  static Failure failure() { return failures()[std::get<0>(GetParam())]; }
  static CudagraphMode mode() { return std::get<1>(GetParam()); }
};

TEST_P(PlantedFailure, is_found_within_ten_steps_answered_eagerly_and_never_replayed_again) {
  const Failure planted = failure();
  if (planted.is_between_pieces && mode() == CudagraphMode::PIECEWISE) {
    GTEST_SKIP() << "attention and states are in no PIECEWISE graph";
  }
  TinyEngine clean({.mode = CudagraphMode::NONE,
                    .num_threads = 1,
                    .attention = planted.attention,
                    .config = planted.config});
  std::vector<std::string> log;
  TinyEngine engine(
      {.mode = mode(),
       .num_threads = 1,
       .attention = planted.attention,
       .config = planted.config,
       .make_executor = testing::hostile_executor(planted.plant),
       .shadow = {.rate = 1, .log = [&](std::string_view line) { log.emplace_back(line); }}});
  capture(engine);
  clean.randomize_kv(21);
  engine.randomize_kv(21);
  const runner::ShadowCheck& shadow = *engine.runner().shadow();
  int num_steps = 0;
  for (; num_steps < 10 && shadow.num_differences() == 0; ++num_steps) {
    const TestBatch batch(Mix::uniform_decode, 5, 16, 40 + static_cast<uint32_t>(num_steps));
    // The step that finds the failure has the answer and the cache of the eager run.
    ASSERT_EQ(execute(engine, batch), execute(clean, batch)) << "step " << num_steps;
    ASSERT_EQ(engine.save_kv(), clean.save_kv()) << "step " << num_steps;
  }
  ASSERT_EQ(shadow.num_differences(), 1U) << "not found in " << num_steps << " steps";
  const runner::StepResult& result = engine.runner().last_result();
  EXPECT_EQ(result.decision.mode, CudagraphRuntimeMode::NONE);
  EXPECT_EQ(result.decision.reason, DispatchReason::key_quarantined);
  ASSERT_TRUE(result.retired);
  ASSERT_EQ(shadow.keys().size(), 1U);
  EXPECT_EQ(shadow.keys()[0].mode, result.retired->mode);
  EXPECT_EQ(shadow.keys()[0].descriptor, result.retired->descriptor);
  EXPECT_THAT(shadow.keys()[0].difference, ::testing::StartsWith(std::string(name(planted.first))));
  ASSERT_EQ(log.size(), 1U);
  EXPECT_THAT(log[0], ::testing::HasSubstr("is quarantined"));
  EXPECT_FALSE(
      engine.runner().dispatcher().is_captured(result.retired->mode, result.retired->descriptor));
  for (uint32_t step = 0; step < 3; ++step) {
    const TestBatch batch(Mix::uniform_decode, 5, 16, 80 + step);
    ASSERT_EQ(execute(engine, batch), execute(clean, batch));
    EXPECT_EQ(engine.runner().last_result().decision.reason, DispatchReason::key_quarantined);
  }
  EXPECT_EQ(shadow.num_differences(), 1U);
}

INSTANTIATE_TEST_SUITE_P(failures_and_modes,
                         PlantedFailure,
                         ::testing::Combine(::testing::Range(size_t{0}, failures().size()),
                                            ::testing::Values(CudagraphMode::PIECEWISE,
                                                              CudagraphMode::FULL)),
                         [](const auto& param_info) {
                           return fmt::format("{}_{}",
                                              failures()[std::get<0>(param_info.param)].name,
                                              to_string(std::get<1>(param_info.param)));
                         });

}  // namespace
}  // namespace reprise
