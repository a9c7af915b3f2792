#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/engine/engine_core.h"
#include "tests/integration/test_batch.h"
#include "tests/integration/tiny_engine.h"
#include "tests/support/fake_device/fake_device.h"

// Invariant 7 in a whole engine: a graph that cannot be captured, or can no longer be replayed, is
// retired with a reason, and no token changes.
namespace reprise {
namespace {

using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using testing::Mix;
using testing::TestBatch;
using testing::TinyEngine;
using testing::TinyEngineOptions;

std::vector<std::vector<int32_t>> greedy_tokens(TinyEngine& engine,
                                                uint64_t* num_full_steps = nullptr) {
  engine::EngineCore core(
      engine.runner(),
      {.scheduler = {.max_num_seqs = 4,
                     .max_num_batched_tokens = 8,
                     .max_model_len = 64,
                     .vocab_size = static_cast<int>(engine.config().vocab_size)}});
  std::vector<std::vector<int32_t>> tokens(3);
  for (int32_t i = 0; i < 3; ++i) {
    std::vector<int32_t> prompt;
    for (int32_t k = 0; k < 3 + 7 * i; ++k) prompt.push_back((5 + 11 * i + 3 * k) % 97);
    core.add_request(prompt, {.temperature = 0, .max_tokens = 10});
  }
  while (core.has_unfinished_requests()) {
    for (const auto& update : core.step()) {
      if (update.new_token_id) {
        tokens[static_cast<size_t>(update.request->id())].push_back(*update.new_token_id);
      }
    }
  }
  if (num_full_steps != nullptr) *num_full_steps = core.ledger().steps(CudagraphRuntimeMode::FULL);
  return tokens;
}

TinyEngineOptions small_engine(CudagraphMode mode, device::Device* device) {
  return {.mode = mode, .max_num_tokens = 8, .max_num_reqs = 4, .num_blocks = 40, .device = device};
}

class FailingCapture : public ::testing::TestWithParam<CudagraphMode> {};

TEST_P(FailingCapture,
       at_any_call_retires_one_key_with_its_reason_and_leaves_every_token_as_it_was) {
  std::vector<std::vector<int32_t>> expected;
  uint64_t num_calls = 0;
  size_t num_keys = 0;
  {
    const std::unique_ptr<device::FakeDevice> fake = device::create_fake_device();
    TinyEngine engine(small_engine(GetParam(), fake.get()));
    fake->fail_call(0);
    num_keys = engine.runner().capture({}).num_captured();
    num_calls = fake->num_calls();
    expected = greedy_tokens(engine);
  }
  ASSERT_GT(num_keys, 3U);
  // 13 is a prime number, so steps of 13 reach begin, launches, end and instantiate of keys of all
  // sizes.
  for (uint64_t k = 1; k <= num_calls; k += 13) {
    const std::unique_ptr<device::FakeDevice> fake = device::create_fake_device();
    TinyEngine engine(small_engine(GetParam(), fake.get()));
    fake->fail_call(k);
    const cudagraph::CaptureReport report = engine.runner().capture({});
    fake->fail_call(0);
    EXPECT_EQ(report.num_captured(), num_keys - 1) << "call " << k;
    for (const cudagraph::CaptureRecord& record : report.records) {
      if (record.failure.empty()) continue;
      EXPECT_THAT(record.failure, ::testing::HasSubstr("as the test asked")) << "call " << k;
    }
    ASSERT_EQ(greedy_tokens(engine), expected) << "call " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(modes,
                         FailingCapture,
                         ::testing::Values(CudagraphMode::PIECEWISE,
                                           CudagraphMode::FULL,
                                           CudagraphMode::FULL_AND_PIECEWISE),
                         [](const auto& param_info) {
                           return std::string(to_string(param_info.param));
                         });

TEST(FailingCapture, of_every_key_leaves_an_engine_that_runs_eagerly) {
  const std::unique_ptr<device::FakeDevice> healthy = device::create_fake_device();
  TinyEngine reference(small_engine(CudagraphMode::NONE, healthy.get()));
  const std::unique_ptr<device::FakeDevice> fake = device::create_fake_device();
  TinyEngine engine(small_engine(CudagraphMode::FULL, fake.get()));
  // After each key, the first call of the next key is set to fail.
  fake->fail_call(1);
  const cudagraph::CaptureReport report =
      engine.runner().capture([&](const auto&, size_t, size_t) { fake->fail_call(1); });
  fake->fail_call(0);
  EXPECT_EQ(report.num_captured(), 0U);
  EXPECT_GT(report.records.size(), 3U);
  uint64_t num_full_steps = 0;
  EXPECT_EQ(greedy_tokens(engine, &num_full_steps), greedy_tokens(reference));
  EXPECT_EQ(num_full_steps, 0U);
}

TEST(FailingCapture, that_loses_the_device_is_not_swallowed) {
  const std::unique_ptr<device::FakeDevice> fake = device::create_fake_device();
  TinyEngine engine(small_engine(CudagraphMode::FULL, fake.get()));
  fake->fail_call(9, device::DeviceError::Severity::sticky);
  EXPECT_THROW((void)engine.runner().capture({}), device::DeviceError);
}

class MovedInputs : public ::testing::TestWithParam<CudagraphMode> {};

TEST_P(MovedInputs, retire_the_graph_and_the_step_still_computes_the_right_logits) {
  TinyEngine engine({.mode = GetParam()});
  (void)engine.runner().capture({});
  engine.randomize_kv(31);
  const std::vector<std::byte> kv_before = engine.save_kv();
  const TestBatch batch(Mix::uniform_decode, 3, 16, 77);
  const cudagraph::BatchFacts facts = batch.facts();
  const runner::StepResult& replayed = engine.runner().execute(batch.requests(), facts);
  const cudagraph::Decision decision = replayed.decision;
  ASSERT_NE(decision.mode, CudagraphRuntimeMode::NONE);
  const std::vector<float> expected = engine.logits(replayed);
  ASSERT_TRUE(engine.runner().retired_graphs().empty());

  // The test moves the persistent buffers, which the runner never does: the graphs now point to
  // freed memory.
  runner::InputBatch& inputs = engine.runner().input_batch();
  const void* old_address = inputs.memory().data;
  const runner::BatchLimits limits = inputs.limits();
  runner::InputBatch moved(limits, engine.execution().device(), engine.execution().executor());
  std::swap(inputs, moved);  // the old buffer stays alive, so that a replay would read old values
  ASSERT_NE(inputs.memory().data, old_address);

  engine.restore_kv(kv_before);
  const runner::StepResult& result = engine.runner().execute(batch.requests(), facts);
  EXPECT_EQ(result.decision.mode, CudagraphRuntimeMode::NONE);
  EXPECT_EQ(result.decision.reason, cudagraph::DispatchReason::key_retired);
  EXPECT_EQ(engine.logits(result), expected);

  const auto retired = engine.runner().retired_graphs();
  ASSERT_EQ(retired.size(), 1U);
  EXPECT_EQ(retired[0].mode, decision.mode);
  EXPECT_EQ(retired[0].descriptor, decision.descriptor);
  EXPECT_THAT(retired[0].reason, ::testing::HasSubstr("recorded at"));
  EXPECT_FALSE(engine.runner().dispatcher().is_captured(decision.mode, decision.descriptor));

  // The other graphs are also outdated: they are retired step by step, and the logits stay right.
  for (int step = 0; step < 10; ++step) {
    engine.restore_kv(kv_before);
    ASSERT_EQ(engine.logits(engine.runner().execute(batch.requests(), facts)), expected)
        << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(modes,
                         MovedInputs,
                         ::testing::Values(CudagraphMode::PIECEWISE,
                                           CudagraphMode::FULL,
                                           CudagraphMode::FULL_DECODE_ONLY,
                                           CudagraphMode::FULL_AND_PIECEWISE),
                         [](const auto& param_info) {
                           return std::string(to_string(param_info.param));
                         });

}  // namespace
}  // namespace reprise
