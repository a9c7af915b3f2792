#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/cuda_ops_fixture.h"
#include "tests/support/kernels/products.h"

// Kernels at the widths, heads and vocabularies of real models: Qwen2.5-0.5B, Llama-3.2-1B,
// Llama-3.1-8B. Only what does not matter for a kernel is small here: the columns of a deep
// product, the depth of a wide one. On a GPU, this file runs first.
namespace reprise::kernels::cuda {
namespace {

class CudaOpsAtRealShapes : public CudaOps {
 protected:
  void expect_product(int64_t rows, int64_t columns, int64_t depth) {
    SCOPED_TRACE(testing::Message() << rows << " x " << columns << " x " << depth);
    const Tensor x = random({rows, depth});
    const Tensor weight = random({columns, depth}, 0.02);
    const Tensor want = make({rows, columns}, DType::f32);
    linear_ref(x, weight, {}, want);
    const double noise = 4e-6 * std::sqrt(static_cast<double>(depth));
    expect_close(run(OpCode::linear, {x, weight, {}}), want, noise);
  }
};

TEST_P(CudaOpsAtRealShapes, deep_products_agree_with_the_oracle_for_rows_past_every_edge_of_tiles) {
  for (const int64_t rows : {1, 8, 9, 16, 17, 32, 33, 65}) {
    expect_product(rows, 24, 4096);
    if (HasFatalFailure()) return;
  }
  for (const int64_t rows : {1, 9}) {
    expect_product(rows, 8, 14336);  // 8B, down
    expect_product(rows, 8, 4864);   // 0.5B, down
    expect_product(rows, 16, 896);   // 0.5B, qkv
    if (HasFatalFailure()) return;
  }
}

// With nine rows or more, wide products have tiles of 32 columns, and x passes through shared
// memory.
TEST_P(CudaOpsAtRealShapes, rows_of_wide_products_have_the_bits_of_a_single_row) {
  if (dtype() == DType::f32) return;  // computed by kernels of another kind
  for (const auto& [columns, depth] :
       std::vector<std::pair<int64_t, int64_t>>{{250, 1096}, {128, 72}, {512, 520}, {4864, 40}}) {
    const Tensor weight = random({columns, depth});
    const Tensor bias = random({columns});
    const Tensor x = random({65, depth});
    const auto rows_of_x = [&](int64_t first, int64_t count) {
      return x.with_layout({count, depth}, {depth, 1}, first * depth);
    };
    for (const OpCode code : {OpCode::linear, OpCode::linear_silu_and_mul, OpCode::lm_head}) {
      const auto product = [&](int64_t first, int64_t count) {
        const Tensor third =
            code == OpCode::lm_head ? ints({1}, {static_cast<int32_t>(count)}) : bias;
        return run(code, {rows_of_x(first, count), weight, third});
      };
      for (const int64_t rows : {9, 16, 17, 32, 33, 65}) {
        if (columns > 1000 && rows != 17) continue;
        SCOPED_TRACE(testing::Message() << op_name(code) << ' ' << rows << " x " << columns);
        const Tensor all = product(0, rows);
        const size_t row_bytes = all.type().bytes() / static_cast<size_t>(rows);
        for (const int64_t row : {int64_t{0}, int64_t{7}, rows - 1}) {
          const auto* found = all.data_as<std::byte>() + static_cast<size_t>(row) * row_bytes;
          EXPECT_EQ(std::memcmp(product(row, 1).data(), found, row_bytes), 0) << "row " << row;
        }
      }
      if (HasFailure()) return;
    }
  }
}

// Each block of the launch has several tiles, one after the other.
TEST_P(CudaOpsAtRealShapes, wide_products_give_every_block_several_tiles) {
  for (const int64_t rows : {1, 9}) {
    expect_product(rows, 4864, 24);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CudaOpsAtRealShapes, the_head_of_a_large_vocabulary_agrees_with_the_oracle) {
  constexpr int64_t kVocabulary = 151936;
  constexpr int64_t kDepth = 16;
  const Tensor x = random({2, kDepth});
  const Tensor weight = random({kVocabulary, kDepth});
  const Tensor logits = run(OpCode::lm_head, {x, weight, ints({1}, {2})});
  const Tensor want = make({2, 1}, DType::f32);
  for (int64_t column = 0; column < kVocabulary; column += column < 64 ? 1 : 977) {
    linear_ref(x, weight.with_layout({1, kDepth}, {kDepth, 1}, column * kDepth), {}, want);
    for (int64_t row = 0; row < 2; ++row) {
      ASSERT_NEAR(logits.data_as<float>()[row * kVocabulary + column], element(want, row, 0), 1e-4)
          << row << ", " << column;
    }
  }
}

// The scale of a row wider than 1,024 is a sum of the whole block.
TEST_P(CudaOpsAtRealShapes, a_norm_and_its_product_have_the_same_bits_apart) {
  for (const int64_t width : {896, 2048, 4096}) {
    const Tensor x = random({3, width});
    const Tensor norm = random({width});
    const Tensor weight = random({2 * 16, width});
    OpAttributes attributes;
    attributes.epsilon = 1e-5F;
    const Tensor normed = run(OpCode::rms_norm, {x, norm}, attributes);
    const Tensor want = run(OpCode::linear_silu_and_mul, {normed, weight, {}});
    const Tensor got = run(OpCode::linear_silu_and_mul, {x, weight, {}, {}, norm}, attributes);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.type().bytes()), 0) << width;
  }
}

INSTANTIATE_TEST_SUITE_P(Types,
                         CudaOpsAtRealShapes,
                         testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& instance) {
                           return std::string(dtype_name(instance.param));
                         });

class CudaAttentionAtRealShapes : public CudaAttention {};

TEST_P(CudaAttentionAtRealShapes, agrees_with_the_oracle) {
  struct Heads {
    int64_t heads;
    int64_t kv_heads;
    int64_t head_dim;
  };
  // Two heads of the cache of each model, with their whole groups.
  for (const Heads& model : {Heads{8, 2, 128}, {8, 2, 64}, {14, 2, 64}}) {
    SCOPED_TRACE(testing::Message() << model.heads << " heads of " << model.head_dim);
    expect_oracle({.query_lens = {1, 1}, .seq_lens = {513, 40}, .padding_tokens = 1},
                  model.heads,
                  model.kv_heads,
                  model.head_dim,
                  16);
    if (is_uniform_only() || HasFatalFailure()) continue;
    expect_oracle({.query_lens = {33, 1}, .seq_lens = {70, 129}},
                  model.heads,
                  model.kv_heads,
                  model.head_dim,
                  16);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(TypesAndPaths,
                         CudaAttentionAtRealShapes,
                         testing::Combine(testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::Values(AttentionPath::Kind::any_batch,
                                                          AttentionPath::Kind::uniform,
                                                          AttentionPath::Kind::planned)));

}  // namespace
}  // namespace reprise::kernels::cuda
