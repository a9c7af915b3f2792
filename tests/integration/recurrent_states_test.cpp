#include <gtest/gtest.h>

#include <cstring>

#include "reprise/engine/engine_core.h"
#include "tests/integration/step_outcome.h"

// The states of recurrent layers: which slots a step may change, and what a slot holds for its next
// owner. The names of tests begin with the class of failure that they would have caught.
namespace reprise {
namespace {

using cudagraph::CudagraphMode;
using testing::Mix;
using testing::TestBatch;
using testing::TinyEngine;

constexpr int32_t kNumSlots = 17;  // with the null slot, for 16 requests

/// The states of all layers in one slot.
std::vector<float> slot_of(TinyEngine& engine, int32_t slot) {
  engine.execution().stream().synchronize();
  std::vector<float> all;
  for (const Tensor& tensor : engine.runner().states().tensors()) {
    const size_t size = tensor.type().bytes() / sizeof(float) / kNumSlots;
    const float* begin = tensor.data_as<float>() + static_cast<size_t>(slot) * size;
    all.insert(all.end(), begin, begin + size);
  }
  return all;
}

std::vector<std::vector<float>> all_slots(TinyEngine& engine) {
  std::vector<std::vector<float>> slots;
  for (int32_t slot = 0; slot < kNumSlots; ++slot) slots.push_back(slot_of(engine, slot));
  return slots;
}

void copy_slot(TinyEngine& engine, int32_t from, int32_t to) {
  for (const Tensor& tensor : engine.runner().states().tensors()) {
    const size_t bytes = tensor.type().bytes() / kNumSlots;
    auto* memory = static_cast<std::byte*>(tensor.data());
    std::memcpy(memory + static_cast<size_t>(to) * bytes,
                memory + static_cast<size_t>(from) * bytes,
                bytes);
  }
}

class RecurrentStates
    : public ::testing::TestWithParam<std::tuple<const char*, CudagraphMode, const char*>> {
 protected:
  TinyEngine engine_{{.mode = std::get<1>(GetParam()),
                      .level = config::CompilationMode::VLLM_COMPILE,
                      .num_warmups = 1,  // captures alone run nothing on a CPU
                      .config = std::get<2>(GetParam())}};

  /// The logits of one request with one token.
  std::vector<float> decode(int32_t slot, int32_t num_computed) {
    const std::vector<int32_t> tokens = {42};
    std::vector<kv_cache::BlockId> blocks;
    for (int32_t b = 0; b * TinyEngine::kBlockSize <= num_computed; ++b) {
      blocks.push_back(kv_cache::BlockId{b + 1});
    }
    const scheduler::StepEntry row{.token_ids = tokens,
                                   .num_computed_tokens = num_computed,
                                   .block_ids = blocks,
                                   .state_slot = kv_cache::StateSlot{slot},
                                   .samples = true};
    return engine_.logits(
        engine_.runner().execute({&row, 1}, {.num_tokens = 1, .num_reqs = 1, .uniform = true}));
  }
};

TEST_P(RecurrentStates, G2_warm_up_writes_no_slot) {
  engine_.randomize_kv(5);
  const auto before = all_slots(engine_);
  (void)engine_.runner().capture({});
  EXPECT_EQ(all_slots(engine_), before);
}

TEST_P(RecurrentStates, G1_padding_keeps_no_slot_of_an_earlier_batch) {
  (void)engine_.runner().capture({});
  engine_.randomize_kv(5);
  for (const Mix mix : {Mix::uniform_decode, Mix::chunked}) {
    // The larger batch has slots that the tail of the buffers still contains.
    const TestBatch larger(mix, 16, 16, 1);
    const TestBatch smaller(mix, 11, 16, 2);
    (void)engine_.runner().execute(larger.requests(), larger.facts());
    const auto before = all_slots(engine_);
    (void)engine_.runner().execute(smaller.requests(), smaller.facts());
    const auto after = all_slots(engine_);
    const auto num_reqs = static_cast<int32_t>(smaller.requests().size());
    for (int32_t slot = 0; slot < kNumSlots; ++slot) {
      const bool is_of_batch = slot > 0 && slot <= num_reqs;
      const auto i = static_cast<size_t>(slot);
      EXPECT_EQ(after[i] != before[i], is_of_batch) << to_string(mix) << ", slot " << slot;
    }
  }
}

TEST_P(RecurrentStates, V32118_a_prompt_of_one_token_forgets_what_its_slot_held) {
  (void)engine_.runner().capture({});
  const std::vector<float> in_zeros = decode(3, 0);
  const std::vector<float> state = slot_of(engine_, 3);
  engine_.randomize_kv(8);
  EXPECT_EQ(decode(3, 0), in_zeros);
  EXPECT_EQ(slot_of(engine_, 3), state);
  engine_.randomize_kv(9);
  EXPECT_NE(decode(3, 7), in_zeros) << "a later token has a state";
}

TEST_P(RecurrentStates, G3_a_replay_reads_the_slot_of_its_step) {
  (void)engine_.runner().capture({});
  engine_.randomize_kv(10);
  copy_slot(engine_, 2, 9);
  const std::vector<float> other_before = slot_of(engine_, 2);
  const std::vector<float> there = decode(9, 5);
  EXPECT_EQ(slot_of(engine_, 2), other_before);
  EXPECT_EQ(decode(2, 5), there);
  EXPECT_EQ(slot_of(engine_, 2), slot_of(engine_, 9));
}

TEST_P(RecurrentStates, each_token_changes_them_once_when_a_graph_is_retired) {
  (void)engine_.runner().capture({});
  engine_.randomize_kv(31);
  const std::vector<std::byte> before = engine_.save_kv();
  const std::vector<float> expected = decode(4, 5);
  const std::vector<float> state = slot_of(engine_, 4);
  runner::InputBatch& inputs = engine_.runner().input_batch();
  const runner::BatchLimits limits = inputs.limits();
  runner::InputBatch moved(limits, engine_.execution().device(), engine_.execution().executor());
  std::swap(inputs, moved);
  engine_.restore_kv(before);
  EXPECT_EQ(decode(4, 5), expected);
  EXPECT_EQ(slot_of(engine_, 4), state);
  EXPECT_EQ(engine_.runner().retired_graphs().size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    models,
    RecurrentStates,
    ::testing::Values(
        std::tuple{"mamba", CudagraphMode::FULL_AND_PIECEWISE, testing::kTinyMambaConfig},
        std::tuple{"mamba2", CudagraphMode::FULL_AND_PIECEWISE, testing::kTinyMamba2Config},
        std::tuple{"mamba2_piecewise", CudagraphMode::PIECEWISE, testing::kTinyMamba2Config},
        std::tuple{"bamba", CudagraphMode::FULL_AND_PIECEWISE, testing::kTinyBambaConfig},
        std::tuple{"falcon_h1", CudagraphMode::FULL_AND_PIECEWISE, testing::kTinyFalconH1Config},
        std::tuple{"lfm2", CudagraphMode::FULL_AND_PIECEWISE, testing::kTinyLfm2Config},
        std::tuple{"qwen3_next", CudagraphMode::FULL_AND_PIECEWISE, testing::kTinyQwen3NextConfig}),
    [](const auto& param_info) { return std::string(std::get<0>(param_info.param)); });

/// Three requests through an engine core; request 1 may be aborted on its way.
struct RecurrentLoad {
  std::vector<std::vector<int32_t>> tokens = std::vector<std::vector<int32_t>>(3);
  int num_preempted = 0;
  int num_free_slots = 0;
};
RecurrentLoad run_load(const char* config, int64_t num_blocks, int abort_after = -1) {
  TinyEngine engine({.max_num_tokens = 16,
                     .max_num_reqs = 3,
                     .num_blocks = num_blocks,
                     .dtype = DType::f32,
                     .config = config});
  (void)engine.runner().capture({});
  engine.randomize_kv(3);
  engine::EngineCore core(
      engine.runner(),
      {.scheduler = {.max_num_seqs = 3,
                     .max_num_batched_tokens = 16,
                     .max_model_len = 64,
                     .scheduler_reserve_full_isl = false,
                     .vocab_size = static_cast<int>(engine.config().vocab_size)},
       .enable_prefix_caching = false});
  std::vector<scheduler::RequestId> ids;
  for (int32_t i = 0; i < 3; ++i) {
    std::vector<int32_t> prompt;
    for (int32_t k = 0; k < 9 + 7 * i; ++k) prompt.push_back((5 + 11 * i + 3 * k) % 97);
    ids.push_back(core.add_request(prompt, {.temperature = 0, .max_tokens = 32}));
  }
  RecurrentLoad load;
  for (int step = 0; core.has_unfinished_requests(); ++step) {
    if (step == abort_after) core.abort_request(ids[1]);
    for (const auto& update : core.step()) {
      if (update.new_token_id) {
        load.tokens[static_cast<size_t>(update.request->id())].push_back(*update.new_token_id);
      }
      load.num_preempted = std::max(load.num_preempted, update.request->num_preemptions());
    }
  }
  load.num_free_slots = core.kv_cache_manager().num_free_state_reqs();
  return load;
}

TEST(RecurrentStateSlots, are_filled_again_after_a_preemption_and_free_at_the_end) {
  for (const char* config : {testing::kTinyMamba2Config, testing::kTinyBambaConfig}) {
    const RecurrentLoad expected = run_load(config, 40);
    EXPECT_EQ(expected.num_preempted, 0);
    const RecurrentLoad preempted = run_load(config, 7);
    EXPECT_GT(preempted.num_preempted, 0);
    EXPECT_EQ(preempted.tokens, expected.tokens);
    EXPECT_EQ(preempted.num_free_slots, 3);
  }
}

TEST(RecurrentStateSlots, of_an_aborted_request_are_free) {
  const RecurrentLoad expected = run_load(testing::kTinyBambaConfig, 40);
  const RecurrentLoad aborted = run_load(testing::kTinyBambaConfig, 40, 9);
  EXPECT_EQ(aborted.num_free_slots, 3);
  EXPECT_LT(aborted.tokens[1].size(), expected.tokens[1].size());
  EXPECT_EQ(aborted.tokens[0], expected.tokens[0]);
  EXPECT_EQ(aborted.tokens[2], expected.tokens[2]);
}

}  // namespace
}  // namespace reprise
