#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/integration/test_batch.h"
#include "tests/integration/tiny_engine.h"

// The content of padding (see input_batch.h), and the proof that padding changes no bit of a real
// row or a live block.
namespace reprise {
namespace {

using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using testing::Mix;
using testing::TestBatch;
using testing::TinyEngine;

std::vector<int32_t> host_values(const Tensor& tensor) {
  const auto* values = tensor.data_as<int32_t>();
  return {values, values + tensor.num_elements()};
}

class StagedPadding : public ::testing::Test {
 protected:
  // Stages a full batch first, so that every tail holds old values; then three rows padded to
  // eight.
  StagedPadding() {
    runner::InputBatch& batch = engine_.runner().input_batch();
    const TestBatch full(Mix::uniform_decode, 16, 16, 1);
    batch.stage(
        full.requests(), {.num_tokens = 16, .num_reqs = 16, .num_logits_rows = 16}, stream());
    const TestBatch small(Mix::uniform_decode, 3, 16, 2);
    batch.stage(small.requests(), {.num_tokens = 8, .num_reqs = 8, .num_logits_rows = 8}, stream());
    metadata_ = batch.attention_metadata();
  }
  device::Stream& stream() { return engine_.execution().stream(); }
  static void expect_tail(const Tensor& tensor, size_t from, int32_t value) {
    const std::vector<int32_t> values = host_values(tensor);
    for (size_t i = from; i < values.size(); ++i) EXPECT_EQ(values[i], value) << "entry " << i;
  }

  TinyEngine engine_{{.config = testing::kTinyBambaConfig}};
  attention::AttentionMetadata metadata_;
};

TEST_F(StagedPadding, M1_positions_and_token_ids_of_padding_are_zero) {
  expect_tail(engine_.runner().input_batch().positions(), 3, 0);
  expect_tail(engine_.runner().input_batch().input_ids(), 3, 0);
}

TEST_F(StagedPadding, M2_block_table_rows_of_padding_are_the_null_block) {
  expect_tail(metadata_.block_table, static_cast<size_t>(3 * metadata_.block_table.size(1)), 0);
}

TEST_F(StagedPadding, entries_behind_a_requests_last_block_are_the_null_block) {
  const std::vector<int32_t> table = host_values(metadata_.block_table);
  const auto width = static_cast<size_t>(metadata_.block_table.size(1));
  const std::vector<int32_t> lens = host_values(metadata_.seq_lens);
  for (size_t row = 0; row < 3; ++row) {
    const size_t used = static_cast<size_t>((lens[row] + 15) / 16);
    for (size_t i = used; i < width; ++i) EXPECT_EQ(table[row * width + i], 0);
  }
}

TEST_F(StagedPadding, M3_M4_slots_of_padding_are_minus_one_and_nothing_else) {
  expect_tail(metadata_.slot_mapping, 3, -1);
}

TEST_F(StagedPadding, S1_state_slots_of_padding_are_the_null_slot) {
  expect_tail(metadata_.state_indices, 3, 0);
}

TEST_F(StagedPadding, padded_requests_are_empty) {
  expect_tail(metadata_.seq_lens, 3, 0);
  expect_tail(metadata_.query_start_loc, 3, 3);
  expect_tail(engine_.runner().input_batch().logits_indices(), 3, 0);
  EXPECT_EQ(host_values(engine_.runner().input_batch().num_logits())[0], 3);
}

// A cross-encoder reads the type of a token from its position.
TEST(StagedPair, positions_of_the_second_text_are_larger) {
  TinyEngine engine{{}};
  runner::InputBatch batch({.max_num_tokens = 16,
                            .max_num_reqs = 2,
                            .max_blocks_per_req = 1,
                            .block_size = 16,
                            .second_text_offset = 100},
                           engine.execution().device(),
                           engine.execution().executor());
  const std::vector<int32_t> ids(5, 1);
  const std::vector<kv_cache::BlockId> first = {kv_cache::BlockId{1}};
  const std::vector<kv_cache::BlockId> second = {kv_cache::BlockId{2}};
  const std::vector<scheduler::StepEntry> requests = {
      {.token_ids = ids, .block_ids = first, .second_text_begin = 3, .samples = true},
      {.token_ids = ids, .block_ids = second, .samples = true}};
  batch.stage(requests,
              {.num_tokens = 12, .num_reqs = 2, .num_logits_rows = 2},
              engine.execution().stream());
  EXPECT_EQ(host_values(batch.positions()),
            (std::vector<int32_t>{0, 1, 2, 103, 104, 0, 1, 2, 3, 4, 0, 0}));
  EXPECT_EQ(host_values(batch.attention_metadata().slot_mapping)[3], 16 + 3);
}

TEST(StagedDummy, no_request_is_longer_than_its_row_of_the_block_table) {
  TinyEngine engine{{}};
  device::Stream& stream = engine.execution().stream();
  constexpr int32_t kMaxModelLen = 512;
  runner::InputBatch batch({.max_num_tokens = 2048,
                            .max_num_reqs = 3,
                            .max_blocks_per_req = kMaxModelLen / 16,
                            .block_size = 16},
                           engine.execution().device(),
                           engine.execution().executor());
  for (int32_t num_tokens : {1, 2, 3, 100, 1535, 1536, 1537, 2048}) {
    batch.stage_dummy({.num_tokens = num_tokens, .num_reqs = 3, .num_logits_rows = 1}, stream);
    const attention::AttentionMetadata metadata = batch.attention_metadata();
    const std::vector<int32_t> lens = host_values(metadata.seq_lens);
    const std::vector<int32_t> starts = host_values(metadata.query_start_loc);
    EXPECT_LE(*std::max_element(lens.begin(), lens.end()), kMaxModelLen);
    EXPECT_LE(lens.front() - lens.back(), 1) << "the tokens are spread evenly";
    EXPECT_EQ(starts.back(), std::min(num_tokens, 3 * kMaxModelLen));
    for (size_t row = 0; row < 3; ++row) EXPECT_EQ(starts[row + 1] - starts[row], lens[row]);
  }
}

TEST(StagedDummy, has_no_request_with_tokens_if_all_are_padding) {
  TinyEngine engine{{}};
  device::Stream& stream = engine.execution().stream();
  runner::InputBatch batch(
      {.max_num_tokens = 64, .max_num_reqs = 3, .max_blocks_per_req = 4, .block_size = 16},
      engine.execution().device(),
      engine.execution().executor());
  batch.stage_dummy(
      {.num_tokens = 7, .num_reqs = 3, .num_logits_rows = 1}, stream, runner::DummyTokens::padding);
  const attention::AttentionMetadata metadata = batch.attention_metadata();
  EXPECT_EQ(metadata.slot_mapping.size(0), 7);
  EXPECT_EQ(host_values(metadata.seq_lens), (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(host_values(metadata.query_start_loc), (std::vector<int32_t>{0, 0, 0, 0}));
}

enum class Poison { zeros, ones, nan, live_row };

class PaddingReachesNothing : public ::testing::TestWithParam<std::tuple<CudagraphMode, Poison>> {
 protected:
  // Fills memory that no live request owns: the persistent buffers before they are staged, the null
  // block, free blocks and the unused end of used blocks. They stay unchanged or get the pattern.
  static void poison(TinyEngine& engine, Poison pattern, int32_t num_live_blocks) {
    const device::BufferView buffers = engine.runner().input_batch().memory();
    auto* bytes = static_cast<std::byte*>(buffers.data);
    // Entries of a block table row that an earlier step has staged are not staged again.
    auto* table = engine.runner().input_batch().attention_metadata().block_table.data_as<int32_t>();
    const std::vector<int32_t> staged(table, reinterpret_cast<int32_t*>(bytes + buffers.bytes));
    if (pattern == Poison::live_row) {
      // The fill repeats the staged arrays, so the tails hold copies of live entries.
      for (size_t i = 4096; i < buffers.bytes; ++i) bytes[i] = bytes[i % 4096];
    } else {
      std::memset(bytes, pattern == Poison::zeros ? 0x00 : 0xFF, buffers.bytes);
    }
    for (size_t i = 0; i < staged.size(); ++i) {
      if (staged[i] != static_cast<int32_t>(kv_cache::kNullBlock)) table[i] = staged[i];
    }
    const kv_cache::KvCacheTensors& cache = engine.runner().kv_cache();
    for (int64_t layer = 0; layer < cache.layout().num_layers; ++layer) {
      for (const Tensor* tensor : {&cache.keys(layer), &cache.values(layer)}) {
        const size_t block_bytes =
            tensor->type().bytes() / static_cast<size_t>(cache.layout().num_blocks);
        auto* first = tensor->data_as<std::byte>();
        const auto fill = [&](int64_t block) {
          std::byte* target = first + static_cast<size_t>(block) * block_bytes;
          if (pattern == Poison::live_row) {
            std::memcpy(target, first + block_bytes, block_bytes);
          } else if (pattern == Poison::nan) {
            auto* halves = reinterpret_cast<uint16_t*>(target);
            std::fill_n(halves, block_bytes / 2, uint16_t{0x7FC0});
          } else {
            std::memset(target, pattern == Poison::zeros ? 0x00 : 0xFF, block_bytes);
          }
        };
        fill(0);
        for (int64_t block = num_live_blocks + 1; block < cache.layout().num_blocks; ++block)
          fill(block);
      }
    }
  }
  // The cache bytes of live blocks only.
  static std::vector<std::byte> live_kv(TinyEngine& engine, int32_t num_live_blocks) {
    std::vector<std::byte> live;
    const kv_cache::KvCacheTensors& cache = engine.runner().kv_cache();
    for (int64_t layer = 0; layer < cache.layout().num_layers; ++layer) {
      for (const Tensor* tensor : {&cache.keys(layer), &cache.values(layer)}) {
        const size_t block_bytes =
            tensor->type().bytes() / static_cast<size_t>(cache.layout().num_blocks);
        const auto* first = tensor->data_as<std::byte>() + block_bytes;
        live.insert(live.end(), first, first + static_cast<size_t>(num_live_blocks) * block_bytes);
      }
    }
    return live;
  }
};

TEST_P(PaddingReachesNothing, no_bit_of_a_real_row_or_a_live_block_changes) {
  const auto [mode, pattern] = GetParam();
  TinyEngine engine({.mode = mode});
  (void)engine.runner().capture({});
  engine.randomize_kv(21);
  const std::vector<std::byte> kv_before = engine.save_kv();
  uint32_t seed = 40;
  for (Mix mix : {Mix::uniform_decode, Mix::mixed, Mix::chunked}) {
    for (int32_t num_tokens : {1, 3, 5, 9, 13}) {
      const TestBatch batch(mix, num_tokens, 16, seed++);
      const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
      engine.restore_kv(kv_before);
      const cudagraph::Decision bare{.descriptor = {.num_tokens = num_tokens}};
      const std::vector<float> expected =
          engine.logits(engine.runner().run(batch.requests(), bare, CudagraphRuntimeMode::NONE));
      const std::vector<std::byte> expected_kv = live_kv(engine, batch.num_blocks_used());

      engine.restore_kv(kv_before);
      poison(engine, pattern, batch.num_blocks_used());
      const std::vector<float> actual =
          engine.logits(engine.runner().run(batch.requests(), decision, decision.mode));
      const std::string what = fmt::format(
          "{} of {} tokens as {}", to_string(mix), num_tokens, to_string(decision.mode));
      ASSERT_EQ(actual.size(), expected.size());
      EXPECT_EQ(std::memcmp(actual.data(), expected.data(), expected.size() * sizeof(float)), 0)
          << what;
      EXPECT_TRUE(live_kv(engine, batch.num_blocks_used()) == expected_kv) << what;
      if (HasFailure()) return;
    }
  }
}

std::string case_name(
    const ::testing::TestParamInfo<std::tuple<CudagraphMode, Poison>>& param_info) {
  constexpr std::array kPatterns = {"zeros", "ones", "nan", "live_row"};
  const auto [mode, pattern] = param_info.param;
  return std::string(to_string(mode)) + "_with_" + kPatterns[static_cast<size_t>(pattern)];
}

INSTANTIATE_TEST_SUITE_P(modes_and_patterns,
                         PaddingReachesNothing,
                         ::testing::Combine(::testing::Values(CudagraphMode::PIECEWISE,
                                                              CudagraphMode::FULL,
                                                              CudagraphMode::FULL_DECODE_ONLY,
                                                              CudagraphMode::FULL_AND_PIECEWISE),
                                            ::testing::Values(Poison::zeros,
                                                              Poison::ones,
                                                              Poison::nan,
                                                              Poison::live_row)),
                         case_name);

TEST(NullBlock, is_not_written_by_warm_up_nor_by_padded_steps) {
  TinyEngine engine({.mode = CudagraphMode::FULL});
  engine.randomize_kv(5);
  const std::vector<std::byte> before = engine.save_kv();
  (void)engine.runner().capture({});
  EXPECT_TRUE(engine.save_kv() == before) << "warm-up must not write any slot";
}

}  // namespace
}  // namespace reprise
