#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_cuda/host_block_fixture.h"
#include "tests/support/fake_cuda/streamed_ops_fixture.h"

// Products whose weights arrive by bulk copies have the bits of the usual kernels: whatever follows
// the product, for every number of rows, and at every edge of depth and columns.
namespace reprise::kernels::cuda {
namespace {

using Kernel = ProductChoice::Kernel;

class StreamedProducts : public StreamedOps {
 protected:
  /// Expects the bits of the usual kernel, for tiles by the rule, of 8 and of 16 rows of the
  /// weight.
  void expect_usual_bits(OpCode code,
                         const std::vector<Tensor>& inputs,
                         const OpAttributes& attributes = {},
                         const std::vector<Tensor>& changed = {}) {
    const Bytes want = bytes_by({.kernel = Kernel::own}, code, inputs, attributes, changed);
    for (const int32_t columns : {0, 8, 16}) {
      const ProductChoice choice{.kernel = Kernel::streamed, .tile_columns = columns};
      EXPECT_EQ(bytes_by(choice, code, inputs, attributes, changed), want)
          << op_name(code) << ", tiles of " << columns;
    }
  }

  /// Every op but linear_rope_kv_write, with and without what may be left out. `columns`: those of
  /// linear; the others have as many as fit.
  void expect_all_ops(int64_t rows, int64_t columns, int64_t depth) {
    SCOPED_TRACE(testing::Message() << rows << " x " << columns << " x " << depth);
    const Tensor x = random({rows, depth});
    const Tensor weight = random({columns, depth});
    const Tensor bias = rows % 2 == 1 ? random({columns}) : Tensor();
    expect_usual_bits(OpCode::linear, {x, weight, bias});
    expect_usual_bits(OpCode::linear_add, {x, weight, bias, random({rows, columns})});
    if (columns % 2 == 0) expect_usual_bits(OpCode::linear_silu_and_mul, {x, weight, bias});
    expect_usual_bits(OpCode::lm_head, {x, weight, ints({1}, {static_cast<int32_t>(rows)})});
  }
};

TEST_P(StreamedProducts, have_the_bits_of_the_usual_kernels_at_every_edge) {
  for (const int64_t rows : {1, 2, 3, 5, 7, 8}) expect_all_ops(rows, 40, 1096);
  for (const int64_t depth : {8, 16, 504, 512, 520, 1024, 4104}) expect_all_ops(2, 18, depth);
  for (const int64_t columns : {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 126, 129, 258}) {
    expect_all_ops(3, columns, 136);
  }
}

TEST_P(StreamedProducts, have_one_block_for_each_multiprocessor) {
  if (machine_.is_real()) GTEST_SKIP() << "only the fake driver tells the size of a launch";
  const Tensor x = random({1, 64});
  const Tensor weight = random({400, 64});
  for (const auto& [kernel, blocks] : {std::pair{Kernel::streamed, 4U}, {Kernel::own, 8U}}) {
    most_blocks_ = 0;
    (void)bytes_by({.kernel = kernel}, OpCode::linear, {x, weight, {}}, {}, {});
    EXPECT_EQ(most_blocks_, blocks);
  }
  most_blocks_ = 0;
  const Tensor narrow = random({24, 64});
  (void)bytes_by({.kernel = Kernel::streamed}, OpCode::linear, {x, narrow, {}}, {}, {});
  EXPECT_EQ(most_blocks_, 3U) << "tiles of 8 columns keep one multiprocessor more busy";
}

TEST_P(StreamedProducts, norm_rows_as_the_usual_kernels_do) {
  for (const int64_t width : {72, 1024, 1096, 2056}) {  // widths for a warp and for a block
    for (const int64_t rows : {1, 3, 8}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      const Tensor x = random({rows, width});
      const Tensor norm = random({width});
      const Tensor weight = random({40, width});
      const Tensor bias = random({40});
      OpAttributes attributes;
      attributes.epsilon = 1e-5F;
      expect_usual_bits(OpCode::linear_silu_and_mul, {x, weight, bias, {}, norm}, attributes);
      const Tensor wanted = ints({1}, {static_cast<int32_t>(rows)});
      expect_usual_bits(OpCode::lm_head, {x, weight, wanted, {}, norm}, attributes);
      if (HasFailure()) return;
    }
  }
}

struct Heads {
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
};

TEST_P(StreamedProducts, rotate_and_cache_heads_as_the_usual_kernels_do) {
  for (const Heads& heads : {Heads{4, 2, 16}, {2, 1, 64}, {1, 1, 96}, {3, 1, 128}}) {
    for (const int64_t rows : {1, 3, 8}) {
      for (const bool has_norm : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << heads.heads << " heads of " << heads.head_dim << ", " << rows);
        constexpr int64_t kDepth = 616;
        const int64_t columns = (heads.heads + 2 * heads.kv_heads) * heads.head_dim;
        const Tensor table = make({50, heads.head_dim}, DType::f32);
        fill(table, 1);
        std::vector<int32_t> positions;
        std::vector<int32_t> slots;
        for (int32_t i = 0; i < rows; ++i) {
          positions.push_back((i * 7 + 3) % 50);
          slots.push_back(i % 4 == 2 ? -1 : (i * 11) % 40);
        }
        const Tensor keys = make({5, heads.kv_heads, 8, heads.head_dim});
        const Tensor values = make(keys.shape());
        OpAttributes attributes;
        attributes.length = heads.heads;
        attributes.epsilon = 1e-5F;
        expect_usual_bits(OpCode::linear_rope_kv_write,
                          {random({rows, kDepth}),
                           random({columns, kDepth}),
                           rows == 3 ? Tensor{} : random({columns}),
                           ints({rows}, positions),
                           table,
                           keys,
                           values,
                           ints({rows}, slots),
                           {},
                           {},
                           has_norm ? random({kDepth}) : Tensor{}},
                          attributes,
                          {keys, values});
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(StreamedProducts, compute_only_the_rows_that_are_wanted_when_they_run) {
  for (const int32_t wanted : {0, 1, 3, 8, 40}) {
    for (const bool has_norm : {false, true}) {
      const Tensor x = random({8, 1096});
      // Rows that are not wanted may hold anything.
      for (int64_t row = wanted; row < 8; ++row) {
        std::memset(x.data_as<std::byte>() + row * 1096 * 2, 0xFF, size_t{1096} * 2);
      }
      const std::vector<Tensor> inputs{
          x, random({50, 1096}), ints({1}, {wanted}), {}, has_norm ? random({1096}) : Tensor{}};
      OpAttributes attributes;
      attributes.epsilon = 1e-5F;
      const auto rows_by = [&](Kernel kernel) {
        Bytes bytes = bytes_by({.kernel = kernel}, OpCode::lm_head, inputs, attributes, {});
        bytes.resize(static_cast<size_t>(std::min(wanted, 8)) * 50 * 4);
        return bytes;
      };
      EXPECT_EQ(rows_by(Kernel::streamed), rows_by(Kernel::own)) << wanted;
    }
  }
}

TEST_P(StreamedProducts, take_strided_rows_and_leave_rows_that_are_not_aligned_to_other_kernels) {
  const Tensor wide = random({6, int64_t{3} * 48});
  const Tensor weight = random({19, 48});
  expect_usual_bits(OpCode::linear,
                    {wide.with_layout({6, 48}, {int64_t{3} * 48, 1}, 48), weight, {}});
  const Tensor x = wide.with_layout({6, 48}, {int64_t{3} * 48, 1}, 5);
  const Bytes want = bytes_of(run(OpCode::linear, {x, weight, {}}));
  const ProductChoice choice{.kernel = Kernel::streamed, .tile_columns = 16};
  const ForcedChoice forced(executor_.choices(), choice);
  EXPECT_EQ(bytes_of(run(OpCode::linear, {x, weight, {}})), want);
  const Tensor many = random({9, 48});
  const Bytes of_many = bytes_of(run(OpCode::linear, {many, weight, {}}));
  EXPECT_EQ(
      std::memcmp(of_many.data(),
                  run(OpCode::linear, {many.with_layout({8, 48}, {48, 1}, 0), weight, {}}).data(),
                  size_t{8} * 19 * 2),
      0);
}

TEST_P(StreamedProducts, copy_nothing_behind_the_ends_of_weights_rows_and_norms) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU does not reach this memory";
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  const auto guarded = [&](const Shape& shape) {
    const TensorType type{dtype(), shape};
    memory.push_back(std::make_unique<GuardedMemory>(type.bytes()));
    const Tensor tensor = Tensor::borrow(type, memory.back()->data(), executor_);
    fill(tensor, 1.0);
    return tensor;
  };
  for (const int64_t depth : {72, 1032}) {
    for (const int64_t columns : {2, 10, 14, 18, 26, 34}) {
      const Tensor x = guarded({3, depth});
      const Tensor weight = guarded({columns, depth});
      const Tensor norm = guarded({depth});
      OpAttributes attributes;
      attributes.epsilon = 1e-5F;
      expect_usual_bits(OpCode::linear, {x, weight, {}});
      expect_usual_bits(OpCode::linear_silu_and_mul, {x, weight, {}, {}, norm}, attributes);
    }
  }
}

TEST_P(StreamedProducts, have_the_same_bits_in_every_order_of_threads_and_copies) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU chooses its order itself";
  const Tensor x = random({3, 1608});
  const Tensor weight = random({130, 1608});
  const Tensor norm = random({1608});
  OpAttributes attributes;
  attributes.epsilon = 1e-5F;
  const auto results = [&](Kernel kernel, uint64_t number) {
    const HostOrder order(number);
    return std::array{bytes_by({.kernel = kernel}, OpCode::linear, {x, weight, {}}, {}, {}),
                      bytes_by({.kernel = kernel},
                               OpCode::linear_silu_and_mul,
                               {x, weight, {}, {}, norm},
                               attributes,
                               {})};
  };
  const auto want = results(Kernel::own, 0);
  for (uint64_t number = 0; number <= 12; ++number) {
    EXPECT_EQ(results(Kernel::streamed, number), want) << "order " << number;
  }
}

TEST_P(StreamedProducts, read_only_weights_before_the_kernels_ahead_are_done) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU does not tell what a kernel touches";
  const ProductChoice streamed{.kernel = Kernel::streamed};
  const ForcedChoice forced(executor_.choices(), streamed);
  for (const int64_t rows : {1, 8}) expect_only_weights_are_read_early(rows, 648, 128);
}

/// Widths and depths of Qwen2.5-0.5B, Llama-3.2-1B and Llama-3.1-8B, with some of their columns.
class StreamedProductsAtRealShapes : public StreamedProducts {};

TEST_P(StreamedProductsAtRealShapes, have_the_bits_of_the_usual_kernels) {
  for (const int64_t depth : {896, 4864, 2048, 8192, 4096, 14336}) {
    for (const int64_t rows : {1, 8}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << depth);
      const Tensor x = random({rows, depth});
      const Tensor weight = random({160, depth}, 0.02);
      const Tensor norm = random({depth});
      OpAttributes attributes;
      attributes.epsilon = 1e-5F;
      expect_usual_bits(OpCode::linear_add, {x, weight, {}, random({rows, 160})});
      if (depth > 4096) continue;
      expect_usual_bits(OpCode::linear_silu_and_mul, {x, weight, {}, {}, norm}, attributes);
    }
  }
  expect_all_ops(1, 4864, 896);
}

INSTANTIATE_TEST_SUITE_P(Types,
                         StreamedProducts,
                         testing::Values(DType::bf16, DType::f16),
                         StreamedOps::name_of);
INSTANTIATE_TEST_SUITE_P(Types,
                         StreamedProductsAtRealShapes,
                         testing::Values(DType::bf16, DType::f16),
                         StreamedOps::name_of);

}  // namespace
}  // namespace reprise::kernels::cuda
