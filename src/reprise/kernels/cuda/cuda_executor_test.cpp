#include "reprise/kernels/cuda/cuda_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/kernels/cuda/cuda_accelerator.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"
#include "tests/support/fake_cuda/host_block_fixture.h"
#include "tests/support/kernels/attention_plan_fixture.h"
#include "tests/support/kernels/products.h"
#include "tests/support/kernels/reference.h"

// Compares matrix products, attention and the executor's choices with the oracles of the CPU's
// kernels.
namespace reprise::kernels::cuda {
namespace {

TEST(CudaAccelerator, says_that_its_kernels_were_compiled_with_few_optimisations) {
  const device::cuda::FakeDriver driver;
  const auto remarks_of = [&](bool are_kernels_slow) {
    const auto accelerator =
        create_cuda_accelerator(driver.api(), {.are_kernels_slow = are_kernels_slow});
    const auto remarks = accelerator->remarks();
    return std::vector<std::string>(remarks.begin(), remarks.end());
  };
  EXPECT_THAT(remarks_of(true),
              testing::ElementsAre(testing::HasSubstr("-DREPRISE_CUDA_FAST_COMPILE=OFF")));
  EXPECT_THAT(remarks_of(false), testing::IsEmpty());
}

TEST_P(CudaOps, multiply_like_the_oracle_at_edges_of_rows_columns_and_depth) {
  for (int64_t rows : {1, 2, 7, 8, 9, 31, 32, 33, 65}) {
    for (int64_t columns : {1, 16, 17}) {
      for (int64_t depth : {8, 31, 40, 264, 1096}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << columns << " x " << depth);
        if (depth > 264 && columns != 17) continue;
        const Tensor x = random({rows, depth});
        const Tensor weight = random({columns, depth});
        const Tensor bias = random({columns});
        const Tensor want = make({rows, columns}, DType::f32);
        linear_ref(x, weight, bias, want);
        const double noise = 4e-6 * std::sqrt(static_cast<double>(depth)) + 1e-6;
        expect_close(run(OpCode::linear, {x, weight, bias}), want, noise);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CudaOps, a_row_of_a_product_has_the_same_bits_in_every_batch) {
  const Tensor x = random({70, 264});
  const Tensor weight = random({40, 264});
  const Tensor all = run(OpCode::linear, {x, weight, {}});
  for (int64_t rows : {1, 5, 8, 9, 32, 33}) {
    const Tensor some =
        run(OpCode::linear, {x.with_layout({rows, 264}, {264, 1}, int64_t{3} * 264), weight, {}});
    const size_t row_bytes = 40 * dtype_bytes(dtype());
    EXPECT_EQ(std::memcmp(some.data(),
                          all.data_as<std::byte>() + 3 * row_bytes,
                          static_cast<size_t>(rows) * row_bytes),
              0)
        << rows;
  }
}

TEST_P(CudaOps, multiply_rows_that_are_strided_or_not_aligned) {
  const Tensor wide = random({6, int64_t{3} * 48});
  for (const int64_t first : {0, 48, 5}) {
    const Tensor x = wide.with_layout({6, 48}, {int64_t{3} * 48, 1}, first);
    const Tensor weight = random({19, 48});
    const Tensor want = make({6, 19}, DType::f32);
    linear_ref(x, weight, {}, want);
    expect_close(run(OpCode::linear, {x, weight, {}}), want, 1e-4);
  }
}

TEST_P(CudaOps, fused_products_have_the_bits_of_the_ops_they_stand_for) {
  for (int64_t rows : {1, 9, 33}) {
    const Tensor x = random({rows, 72});
    const Tensor weight = random({int64_t{2} * 21, 72});
    const Tensor bias = random({int64_t{2} * 21});
    const Tensor product = run(OpCode::linear, {x, weight, bias});
    const Tensor residual = random({rows, int64_t{2} * 21});
    const Tensor sum = run(OpCode::add, {residual, product});
    const Tensor fused_sum = run(OpCode::linear_add, {x, weight, bias, residual});
    EXPECT_EQ(std::memcmp(sum.data(), fused_sum.data(), sum.type().bytes()), 0) << rows;
    const Tensor gated = run(OpCode::silu_and_mul, {product});
    const Tensor fused = run(OpCode::linear_silu_and_mul, {x, weight, bias});
    EXPECT_EQ(std::memcmp(gated.data(), fused.data(), gated.type().bytes()), 0) << rows;
  }
}

/// The heads of a model, a cache, and rows of which some have no slot.
struct HeadsCase {
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
};

TEST_P(CudaOps, rotated_and_cached_heads_have_the_bits_of_the_product_and_the_ops_behind_it) {
  for (const HeadsCase& heads : {HeadsCase{4, 2, 16}, {2, 1, 64}, {16, 1, 128}, {2, 1, 24}}) {
    for (const int64_t rows : {1, 3, 8, 9, 32, 33}) {
      SCOPED_TRACE(testing::Message()
                   << heads.heads << " heads of " << heads.head_dim << ", " << rows);
      // This case is wide enough for tiles of sixteen columns; the dot kernels have no such tiles.
      if (heads.head_dim == 128 && (dtype() == DType::f32 || (rows != 3 && rows != 9))) continue;
      constexpr int64_t kDepth = 104;
      constexpr int64_t kBlockSize = 8;
      const int64_t columns = (heads.heads + 2 * heads.kv_heads) * heads.head_dim;
      const Tensor x = random({rows, kDepth});
      const Tensor weight = random({columns, kDepth});
      const Tensor bias = rows == 3 ? Tensor{} : random({columns});
      const Tensor table = make({50, heads.head_dim}, DType::f32);
      fill(table, 1);
      std::vector<int32_t> positions;
      std::vector<int32_t> slots;
      for (int32_t i = 0; i < rows; ++i) {
        positions.push_back((i * 7 + 3) % 50);
        slots.push_back(i % 4 == 2 ? -1 : (i % 5 == 4 ? 1000 + i : (i * 11) % 40));
      }
      const Tensor position_tensor = ints({rows}, positions);
      const Tensor slot_tensor = ints({rows}, slots);
      const Shape cache{5, heads.kv_heads, kBlockSize, heads.head_dim};
      const std::array<Tensor, 4> caches{make(cache), make(cache), make(cache), make(cache)};
      const uint64_t before = stream_->counters().kernel_launches;
      OpAttributes attributes;
      attributes.length = heads.heads;
      const Tensor fused =
          run(OpCode::linear_rope_kv_write,
              {x, weight, bias, position_tensor, table, caches[0], caches[1], slot_tensor, {}, {}},
              attributes);
      const bool is_one_launch = dtype() != DType::f32 && rows <= 32 && heads.head_dim % 16 == 0;
      EXPECT_EQ(stream_->counters().kernel_launches - before, is_one_launch ? 1U : 2U);
      const Tensor product = run(OpCode::linear, {x, weight, bias});
      const auto part = [&](int64_t first, int64_t count) {
        return product.with_layout(
            {rows, count, heads.head_dim}, {columns, heads.head_dim, 1}, first * heads.head_dim);
      };
      const Tensor want = run(OpCode::rope_kv_write,
                              {part(0, heads.heads),
                               part(heads.heads, heads.kv_heads),
                               part(heads.heads + heads.kv_heads, heads.kv_heads),
                               position_tensor,
                               table,
                               caches[2],
                               caches[3],
                               slot_tensor,
                               {},
                               {}});
      EXPECT_EQ(std::memcmp(fused.data(), want.data(), want.type().bytes()), 0);
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(std::memcmp(caches[i].data(), caches[i + 2].data(), caches[i].type().bytes()), 0);
      }
      if (HasFailure()) return;
    }
  }
}

TEST_P(CudaOps, products_of_a_norm_have_the_bits_of_the_norm_and_the_product) {
  for (const int64_t width : {72, 1024, 1096, 2056}) {  // widths for a warp and for a block
    for (const int64_t rows : {1, 3, 8, 9}) {
      if (width > 1024 && rows == 9) continue;
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      const Tensor x = random({rows, width});
      const Tensor norm = random({width});
      const Tensor weight = random({int64_t{2} * 24, width});
      const Tensor bias = random({int64_t{2} * 24});
      const Tensor wanted = ints({1}, {static_cast<int32_t>(rows)});
      OpAttributes attributes;
      attributes.epsilon = 1e-5F;
      const bool is_one_launch = dtype() != DType::f32 && rows <= 8;
      // The last operand is the norm.
      const auto expect_bits = [&](OpCode code, std::vector<Tensor> inputs) {
        inputs[0] = run(OpCode::rms_norm, {x, norm}, attributes);
        const Tensor want = run(code, inputs);
        inputs[0] = x;
        inputs.back() = norm;
        const uint64_t before = stream_->counters().kernel_launches;
        const Tensor got = run(code, inputs, attributes);
        EXPECT_EQ(stream_->counters().kernel_launches - before, is_one_launch ? 1U : 2U);
        EXPECT_EQ(std::memcmp(got.data(), want.data(), want.type().bytes()), 0) << op_name(code);
      };
      expect_bits(OpCode::linear_silu_and_mul, {x, weight, bias, {}, {}});
      expect_bits(OpCode::lm_head, {x, weight, wanted, {}, {}});
      if (HasFailure()) return;
    }
  }
}

TEST_P(CudaOps, products_touch_only_weights_before_the_kernels_ahead_are_done) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU does not tell what a kernel touches";
  for (const int64_t rows : {1, 8, 9}) expect_only_weights_are_read_early(rows, 136, 64);
}

TEST_P(CudaOps, the_head_computes_only_the_rows_that_are_wanted_when_it_runs) {
  for (int32_t wanted : {0, 1, 8, 9, 40}) {
    const Tensor x = random({40, 64});
    const Tensor weight = random({33, 64});
    const Tensor want = make({40, 33}, DType::f32);
    linear_ref(x, weight, {}, want);
    const Tensor logits = run(OpCode::lm_head, {x, weight, ints({1}, {wanted})});
    for (int64_t row = 0; row < wanted; ++row) {
      for (int64_t i = 0; i < 33; ++i) {
        ASSERT_NEAR(logits.data_as<float>()[row * 33 + i], element(want, row, i), 1e-4);
      }
    }
  }
}

TEST_P(CudaOps, have_the_same_bits_in_every_order_of_threads) {
  const Tensor x = random({9, 1096});
  const Tensor weight = random({34, 1096});
  const Tensor norm = random({1096});
  const auto results = [&](uint64_t number) {
    const HostOrder order(number);
    return std::array{run(OpCode::linear, {x, weight, {}}),
                      run(OpCode::linear_silu_and_mul, {x, weight, {}}),
                      run(OpCode::rms_norm, {x, norm})};
  };
  const auto want = results(0);
  for (uint64_t number = 1; number <= 6; ++number) {
    const auto got = results(number);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(std::memcmp(got[i].data(), want[i].data(), want[i].type().bytes()), 0)
          << "order " << number << ", result " << i;
    }
  }
}

TEST_P(CudaAttention, agrees_with_the_oracle_for_every_mix_of_requests) {
  if (is_uniform_only()) return;
  const std::vector<Batch> batches = {
      {.query_lens = {1}, .seq_lens = {1}},
      {.query_lens = {1}, .seq_lens = {17}},
      {.query_lens = {1, 1, 1}, .seq_lens = {5, 64, 33}, .padding_tokens = 5, .padding_reqs = 5},
      {.query_lens = {5, 1, 30}, .seq_lens = {5, 40, 50}, .padding_tokens = 3, .padding_reqs = 1},
      {.query_lens = {40, 2}, .seq_lens = {100, 2}},
      {.query_lens = {1}, .seq_lens = {700}},          // in parts, by several blocks
      {.query_lens = {3, 1}, .seq_lens = {600, 300}},  // also in parts, of other sizes
  };
  for (const int64_t head_dim : kind() == AttentionPath::Kind::any_batch
                                    ? std::vector<int64_t>{64, 128, 32}
                                    : std::vector<int64_t>{128, 32}) {
    for (size_t i = 0; i < batches.size(); ++i) {
      for (const int64_t kv_heads : {1, 2}) {
        SCOPED_TRACE(testing::Message() << "batch " << i << ", head_dim " << head_dim);
        expect_oracle(batches[i], 4, kv_heads, head_dim, 16);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CudaAttention, agrees_with_the_oracle_for_uniform_batches) {
  const std::vector<Batch> batches = {
      {.query_lens = {1, 1, 1}, .seq_lens = {5, 64, 33}, .padding_tokens = 5, .padding_reqs = 5},
      {.query_lens = {1}, .seq_lens = {700}},
      {.query_lens = {1, 1}, .seq_lens = {300, 2}, .padding_tokens = 1},
      {.query_lens = {3, 3}, .seq_lens = {600, 3}, .padding_tokens = 3, .padding_reqs = 1},
      {.query_lens = {30, 30}, .seq_lens = {40, 30}},  // more rows than one tile
  };
  for (const int64_t head_dim : {64, 128, 32}) {
    for (size_t i = 0; i < batches.size(); ++i) {
      SCOPED_TRACE(testing::Message() << "batch " << i << ", head_dim " << head_dim);
      expect_oracle(batches[i], 7, 1, head_dim, 16);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaAttention, parts_are_merged_when_all_are_there_in_whatever_order_blocks_run) {
  if (kind() != AttentionPath::Kind::any_batch || dtype() == DType::f32) return;
  // One tile has eight parts. Each time the workspace holds the values of another batch.
  for (int i = 0; i < 20; ++i) {
    expect_oracle({.query_lens = {1}, .seq_lens = {2000}}, 2, 1, 64, 16);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CudaAttention, planned_parts_agree_with_the_oracle_at_edges_and_windows) {
  if (kind() != AttentionPath::Kind::planned) return;
  const Batch batch{.query_lens = {1, 1, 9, 1}, .seq_lens = {32, 33, 60, 300}, .padding_tokens = 2};
  for (const int64_t head_dim : {64, 40}) {
    for (const int64_t window : {0, 1, 33, 100}) {
      expect_oracle(batch, 4, 2, head_dim, 16, window, {.positions_per_part = 32});
      expect_oracle(
          batch, 4, 2, head_dim, 16, window, {.positions_per_part = 96, .tokens_per_item = 40});
    }
  }
}

TEST_P(CudaAttention, a_plan_of_another_batch_gives_nan) {
  if (kind() != AttentionPath::Kind::planned) return;
  for (const int64_t head_dim : {64, 40}) {
    const Tensor q = random({3, 2, head_dim});
    const Tensor keys = random({8, 1, 16, head_dim});
    const Tensor values = random({8, 1, 16, head_dim});
    const Tensor out = make({3, 2, head_dim});
    const auto nan_rows = [&](const std::vector<PlannedLengths>& planned_for) {
      use_plan(planned_for, {}, 2, head_dim);
      executor_.execute({.code = OpCode::attention, .attributes = {.scale = 1}},
                        std::array{q,
                                   keys,
                                   values,
                                   ints({4}, {0, 1, 2, 3}),
                                   ints({3}, {40, 20, 33}),
                                   ints({3, 3}, {0, 1, 2, 3, 4, 0, 5, 6, 7}),
                                   out},
                        {});
      stream_->synchronize();
      std::array<bool, 3> rows{};
      for (int64_t token = 0; token < 3; ++token) {
        rows[static_cast<size_t>(token)] = std::isnan(element(out, token, 0, 0)) &&
                                           std::isnan(element(out, token, 1, head_dim - 1));
      }
      return rows;
    };
    EXPECT_EQ(nan_rows({{1, 40}, {1, 20}, {1, 33}}), (std::array{false, false, false}));
    EXPECT_EQ(nan_rows({{1, 40}, {1, 21}, {1, 34}}), (std::array{false, true, true}));
    EXPECT_EQ(nan_rows({{1, 40}, {1, 20}}), (std::array{true, true, true}));
    EXPECT_EQ(nan_rows({{1, 40}, {1, 20}, {1, 33}, {1, 9}}), (std::array{true, true, true}));
  }
}

// The project's own kernels take the place of FlashInfer's here, because both take the same
// arguments.
TEST_P(CudaAttention, planned_decoding_is_flashinfers_where_it_has_kernels_for_it) {
  if (kind() != AttentionPath::Kind::planned || dtype() != DType::bf16) return;
  if (machine_.is_real()) GTEST_SKIP() << "only on the host can another kernel be played";
  static constexpr device::Kernel kDecode{
      .name = "decode",
      .cuda = {.image = "flashinfer", .function = "decode", .threads_per_block = 256}};
  static constexpr device::Kernel kMerge{
      .name = "merge",
      .cuda = {.image = "flashinfer", .function = "merge", .threads_per_block = 128}};
  static constexpr std::array kTable{FlashInferDecode{DType::bf16, 64, 2, &kDecode, &kMerge}};
  int num_launches = 0;
  const auto play = [&](const char* function, const char* ours) {
    const HostKernel& kernel = host_kernels().at(ours);
    machine_.driver().add_kernel(function,
                                 {.parameter_bytes = kernel.argument_bytes,
                                  .run = [&](const device::cuda::FakeLaunch& launch) {
                                    ++num_launches;
                                    kernel.run(
                                        launch.parameter, launch.num_blocks, 0, launch.num_blocks);
                                  }});
  };
  play("decode", "reprise_planned_attention_by_rows_bf16");
  play("merge", "reprise_merge_attention_bf16");
  CudaExecutor executor(
      *stream_, *pool_, {.num_multiprocessors = 4, .flashinfer = {.planned = kTable}});
  const auto launches_of =
      [&](int64_t heads, int64_t kv_heads, int64_t head_dim, int32_t query_len, int64_t window) {
        num_launches = 0;
        const TestPlan plan = make_test_plan(std::vector<PlannedLengths>{{1, 40}, {1, 20}}, {});
        executor.set_attention(
            {.kind = AttentionPath::Kind::planned,
             .query_len = query_len,
             .plan = ints({static_cast<int64_t>(plan.words.size())}, plan.words),
             .partials = make({std::max(plan.num_parts, 1) * heads * (head_dim + 2)}, DType::f32)});
        OpAttributes attributes;
        attributes.scale = 1;
        attributes.sliding_window = window;
        const Tensor out = make({2, heads, head_dim});
        executor.execute({.code = OpCode::attention, .attributes = attributes},
                         std::array{random({2, heads, head_dim}),
                                    random({8, kv_heads, 16, head_dim}),
                                    random({8, kv_heads, 16, head_dim}),
                                    ints({3}, {0, 1, 2}),
                                    ints({2}, {40, 20}),
                                    ints({2, 3}, {0, 1, 2, 3, 4, 5}),
                                    out},
                         {});
        stream_->synchronize();
        EXPECT_FALSE(std::isnan(element(out, 1, heads - 1, head_dim - 1)));
        return num_launches;
      };
  EXPECT_EQ(launches_of(4, 2, 64, 1, 0), 2);
  EXPECT_EQ(launches_of(4, 2, 64, 0, 0), 0) << "prompts may be among them";
  EXPECT_EQ(launches_of(4, 2, 64, 1, 8), 0) << "it has no windows";
  EXPECT_EQ(launches_of(4, 1, 64, 1, 0), 0) << "another group";
  EXPECT_EQ(launches_of(4, 2, 128, 1, 0), 0) << "another head";
}

TEST_P(CudaAttention, serves_odd_groups_blocks_and_windows) {
  if (is_uniform_only()) return;
  const Batch batch{.query_lens = {1, 9, 1}, .seq_lens = {70, 60, 300}, .padding_tokens = 2};
  for (const int64_t head_dim : {64, 40}) {
    expect_oracle(batch, 7, 1, head_dim, 16);  // a group of seven
    expect_oracle(batch, 3, 3, head_dim, 8);   // blocks shorter than a step
    expect_oracle(batch, 2, 1, head_dim, 24);  // blocks whose size is not a power of two
    expect_oracle(batch, 4, 2, head_dim, 16, 1);
    expect_oracle(batch, 4, 2, head_dim, 16, 37);
    expect_oracle(batch, 20, 1, head_dim, 16);  // more heads than a warp has rows
  }
}

TEST_P(CudaAttention, prompts_agree_with_the_oracle_around_the_edges_of_tiles) {
  if (kind() != AttentionPath::Kind::any_batch || dtype() == DType::f32) return;
  (void)take_bank_conflicts();
  for (const int32_t tokens : {15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129}) {
    const bool is_even = tokens % 2 == 0;
    SCOPED_TRACE(testing::Message() << tokens << " tokens");
    expect_oracle({.query_lens = {tokens}, .seq_lens = {tokens}},
                  2,
                  1,
                  is_even ? 64 : 128,
                  is_even ? 32 : 16);
    expect_oracle({.query_lens = {tokens}, .seq_lens = {tokens + 70}, .padding_tokens = 3},
                  1,
                  1,
                  is_even ? 128 : 64,
                  16);
    if (HasFatalFailure()) return;
  }
  expect_oracle({.query_lens = {1000}, .seq_lens = {1000}}, 1, 1, 64, 16);
  EXPECT_EQ(take_bank_conflicts(), 0U);
}

TEST_P(CudaAttention, prompts_agree_with_the_oracle_for_every_group_window_and_mix) {
  if (kind() != AttentionPath::Kind::any_batch || dtype() == DType::f32) return;
  // Chunks of prompts, decoding requests, requests without tokens, and padding.
  const Batch mix{.query_lens = {50, 1, 0, 90, 1, 17},
                  .seq_lens = {50, 140, 0, 200, 1, 64},
                  .padding_tokens = 5,
                  .padding_reqs = 2};
  // the other type differs only in its matrix products
  const bool is_first = dtype() == DType::bf16;
  for (const int64_t group :
       is_first ? std::vector<int64_t>{1, 2, 4, 5, 7, 8} : std::vector<int64_t>{5}) {
    SCOPED_TRACE(testing::Message() << "group of " << group);
    expect_oracle(mix, 2 * group, 2, group % 2 == 0 ? 64 : 128, group % 4 == 0 ? 32 : 16);
    if (HasFatalFailure()) return;
  }
  for (const int64_t window :
       is_first ? std::vector<int64_t>{1, 16, 37, 64, 100} : std::vector<int64_t>{37}) {
    SCOPED_TRACE(testing::Message() << "window of " << window);
    expect_oracle(mix, 2, 1, window % 2 == 0 ? 64 : 128, 16, window);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CudaAttention, parts_of_long_contexts_of_prompts_are_merged) {
  if (kind() != AttentionPath::Kind::any_batch || dtype() == DType::f32) return;
  for (int i = 0; i < 2; ++i) {
    expect_oracle({.query_lens = {30, 1}, .seq_lens = {2500, 1300}}, 1, 1, 64, 16);
    expect_oracle({.query_lens = {20}, .seq_lens = {2100}}, 2, 1, 128, 32, i == 0 ? 0 : 1700);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CudaAttention, finds_its_tile_among_many_requests) {
  if (is_uniform_only()) return;
  Batch batch;
  for (int32_t i = 0; i < 75; ++i) {
    batch.query_lens.push_back(i % 7 == 0 ? 20 : i % 3);
    batch.seq_lens.push_back(batch.query_lens.back() + i % 5);
  }
  expect_oracle(batch, 4, 1, 64, 16);
}

TEST_P(CudaOps, collectives_without_ranks_are_refused_by_name) {
  if (dtype() != DType::f32) GTEST_SKIP() << "the op has operands of float32";
  const std::array<Tensor, 2> inputs = {random({2, 16}), ints({1}, {2})};
  try {
    std::array<Tensor, 1> outputs;
    executor_.execute({.code = OpCode::gather_columns, .attributes = {.length = 30, .ranks = 2}},
                      inputs,
                      outputs);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()),
              "gather_columns: needs a connection between 2 GPUs: this engine has 1");
  }
}

TEST_P(CudaOps, nothing_is_loaded_or_allocated_after_construction) {
  if (machine_.is_real()) GTEST_SKIP() << "only the fake driver counts its objects";
  const auto before = machine_.driver().resources();
  const Tensor x = random({3, 64});
  (void)run(OpCode::linear, {x, random({16, 64}), {}});
  (void)run(OpCode::rms_norm, {x, random({64})});
  const auto after = machine_.driver().resources();
  EXPECT_EQ(after.modules, before.modules);
  EXPECT_LE(after.allocations, before.allocations + 1);  // the one allocation is the pool's
  EXPECT_EQ(machine_.driver().misuses(), std::vector<std::string>{});
}

std::string name_of(const testing::TestParamInfo<DType>& info) {
  return std::string(dtype_name(info.param));
}
INSTANTIATE_TEST_SUITE_P(Types,
                         CudaOps,
                         testing::Values(DType::f32, DType::bf16, DType::f16),
                         name_of);
INSTANTIATE_TEST_SUITE_P(TypesAndPaths,
                         CudaAttention,
                         testing::Combine(testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::Values(AttentionPath::Kind::any_batch,
                                                          AttentionPath::Kind::uniform,
                                                          AttentionPath::Kind::planned)));

}  // namespace
}  // namespace reprise::kernels::cuda
