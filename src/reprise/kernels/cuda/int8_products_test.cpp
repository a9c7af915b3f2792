#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/kernels/cuda/eight_bit_product.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"
#include "tests/support/fake_cuda/host_block_fixture.h"
#include "tests/support/kernels/int8_panels.h"

// Products of int8 rows with int8 weights on a GPU, bit for bit: their sums are exact.
namespace reprise::kernels::cuda {
namespace {

class CudaInt8 : public CudaOpsOf<DType> {
 protected:
  [[nodiscard]] DType dtype() const override { return GetParam(); }

  Tensor weight_of(int64_t columns, int64_t depth) {
    const TensorType type = int8_panels_type(columns, depth, dtype());
    Tensor weight =
        Tensor::own(type, device::PoolReference(pool_->allocate(type.bytes())), executor_);
    fill_int8_panels(weight, random_);
    return weight;
  }
  /// Codes of all values.
  Tensor codes(int64_t rows, int64_t depth) {
    const Tensor x = make({rows, depth}, DType::i8);
    for (int64_t i = 0; i < rows * depth; ++i) {
      x.data_as<int8_t>()[i] = static_cast<int8_t>(random_());
    }
    return x;
  }
  Tensor scales(int64_t rows) {
    const Tensor scale = make({rows}, DType::f32);
    std::uniform_real_distribution<float> number(0.001F, 0.02F);
    for (int64_t row = 0; row < rows; ++row) scale.data_as<float>()[row] = number(random_);
    return scale;
  }
  /// The formula of linear.h, with the sum in 64 bits.
  Tensor expected(
      const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& scale, DType type) {
    const Tensor out = make({x.size(0), weight.size(0)}, type);
    for (int64_t row = 0; row < x.size(0); ++row) {
      for (int64_t column = 0; column < weight.size(0); ++column) {
        int64_t sum = 0;
        for (int64_t i = 0; i < x.size(1); ++i) {
          sum += int64_t{x.data_as<int8_t>()[row * x.size(1) + i]} *
                 int8_panel_code(weight, column, i);
        }
        float value = static_cast<float>(sum) *
                      scale.data_as<float>()[scale.size(0) == 1 ? 0 : row] *
                      int8_panel_scale(weight, column);
        if (bias.defined()) value += static_cast<float>(element(bias, column));
        set_element(out, value, row, column);
      }
    }
    return out;
  }
  /// Of the fake; only it counts.
  [[nodiscard]] uint64_t num_products() {
    return machine_.is_real() ? 0 : machine_.cublas_lt().num_products();
  }
  void expect_num_products(uint64_t before, uint64_t count) {
    if (machine_.is_real()) return;
    EXPECT_EQ(num_products() - before, count);
  }
  static void expect_same_bits(const Tensor& got, const Tensor& want) {
    ASSERT_EQ(got.type(), want.type());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.type().bytes()), 0);
  }
};

TEST_P(CudaInt8, products_are_exact_at_edges_of_rows_columns_and_depth) {
  for (const int64_t rows : {1, 7, 8, 9, 16, 17, 70}) {
    for (const int64_t columns : {32, 96}) {
      for (const int64_t depth : {64, 192, 1152}) {
        if (rows > 17 && depth == 1152) continue;
        SCOPED_TRACE(testing::Message() << rows << " x " << columns << " x " << depth);
        const Tensor x = codes(rows, depth);
        const Tensor weight = weight_of(columns, depth);
        const Tensor bias = columns == 32 ? Tensor{} : random({columns});
        const Tensor scale = scales(rows == 9 ? 1 : rows);  // or one that a checkpoint has
        expect_same_bits(run(OpCode::linear, {x, weight, bias, scale}),
                         expected(x, weight, bias, scale, dtype()));
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(CudaInt8, fused_products_have_the_bits_of_the_ops_they_stand_for) {
  for (const int64_t rows : {1, 8, 9, 33}) {
    const Tensor x = codes(rows, 320);
    const Tensor weight = weight_of(96, 320);
    const Tensor scale = scales(rows);
    const Tensor bias = rows == 8 ? Tensor{} : random({96});
    const Tensor product = run(OpCode::linear, {x, weight, bias, scale});
    const Tensor residual = random({rows, 96});
    expect_same_bits(run(OpCode::linear_add, {x, weight, bias, residual, scale}),
                     run(OpCode::add, {residual, product}));
    expect_same_bits(run(OpCode::linear_silu_and_mul, {x, weight, bias, scale}),
                     run(OpCode::silu_and_mul, {product}));
  }
}

TEST_P(CudaInt8, logits_of_the_rows_that_the_device_counts) {
  const Tensor x = codes(20, 128);
  const Tensor weight = weight_of(64, 128);
  const Tensor scale = scales(20);
  const Tensor want = expected(x, weight, {}, scale, DType::f32);
  for (const int32_t count : {0, 1, 16, 17, 20, 21, -1}) {
    std::array<Tensor, 1> out{make({20, 64}, DType::f32)};  // NaNs
    const std::array<Tensor, 5> in{x, weight, ints({1}, {count}), scale};
    executor_.execute({.code = OpCode::lm_head}, in, out);
    stream_->synchronize();
    for (int64_t row = 0; row < 20; ++row) {
      const double got = element(out[0], row, 63);
      EXPECT_TRUE(row < count ? got == element(want, row, 63) : std::isnan(got))
          << row << " of " << count;
    }
  }
}

TEST_P(CudaInt8, looks_up_rows_of_packed_tables) {
  const Tensor table = weight_of(64, 192);
  const std::vector<int32_t> ids{0, 15, 16, 63, -1, 64};
  const Tensor rows = run(OpCode::embedding, {ints({6}, ids), table});
  for (int64_t row = 0; row < 6; ++row) {
    const int64_t id = ids[static_cast<size_t>(row)];
    for (int64_t i = 0; i < 192; ++i) {
      const Tensor want = make({1});
      const bool is_there = id >= 0 && id < 64;
      const float number =
          is_there ? int8_panel_scale(table, id) * static_cast<float>(int8_panel_code(table, id, i))
                   : 0.0F;
      set_element(want, number, 0);
      ASSERT_EQ(element(rows, row, i), element(want, 0)) << id << ", " << i;
    }
  }
}

TEST_P(CudaInt8, products_of_many_rows_are_the_librarys_and_have_the_same_bits) {
  if (machine_.cublas_lt_api() == nullptr) GTEST_SKIP() << "this machine has no cuBLASLt";
  CudaExecutor executor(
      *stream_, *pool_, {.num_multiprocessors = 4, .cublas_lt = machine_.cublas_lt_api()});
  const Tensor weight = weight_of(96, 192);
  const Tensor bias = random({96});
  for (const int64_t rows : {64, 65}) {
    const Tensor x = codes(rows, 192);
    const Tensor scale = scales(rows);
    const Tensor residual = random({rows, 96});
    const Tensor all = ints({1}, {static_cast<int32_t>(rows)});
    const uint64_t before = num_products();
    using Call = std::pair<OpCode, std::vector<Tensor>>;
    const std::vector<Call> calls = {{OpCode::linear, {x, weight, bias, scale}},
                                     {OpCode::linear_add, {x, weight, bias, residual, scale}},
                                     {OpCode::linear_silu_and_mul, {x, weight, bias, scale, {}}},
                                     {OpCode::lm_head, {x, weight, all, scale, {}}}};
    for (const auto& [code, inputs] : calls) {
      std::array<Tensor, 1> outputs;
      executor.execute({.code = code}, inputs, outputs);
      stream_->synchronize();
      expect_same_bits(outputs[0], run(code, inputs));
    }
    expect_num_products(before, rows == 64 ? 0 : 4);
  }
}

TEST_P(CudaInt8, weights_become_rows_in_pieces_for_the_library) {
  if (machine_.is_real()) GTEST_SKIP() << "the fake counts products";
  GemmLibrary library(machine_.cublas_lt().api(),
                      dynamic_cast<device::cuda::CudaStream&>(*stream_));
  const Tensor weight = weight_of(96, 192);
  const Tensor x = codes(70, 192);
  const Tensor scale = scales(1);
  const Tensor bias = random({96});
  const Tensor want = expected(x, weight, bias, scale, dtype());
  // An output has 70 sums of four bytes, of which twice as many bytes count.
  using Case = std::pair<int64_t, uint64_t>;
  for (const auto& [piece, products] : {Case{1, 6},
                                        Case{int64_t{48} * 560, 2},
                                        Case{int64_t{80} * 560, 2},
                                        Case{kExpandedBytes, 1}}) {
    const uint64_t before = machine_.cublas_lt().num_products();
    const Tensor out = make({70, 96});
    ASSERT_TRUE(
        multiply_in_eight_bits(executor_,
                               library,
                               {.x = x, .weight = weight, .out = out, .bias = bias, .scale = scale},
                               piece));
    stream_->synchronize();
    EXPECT_EQ(machine_.cublas_lt().num_products() - before, products);
    expect_same_bits(out, want);
  }
  EXPECT_EQ(machine_.driver().misuses(), std::vector<std::string>{});
}

// Float32 has no integers above 2^24 that are odd.
TEST_P(CudaInt8, sums_above_2_to_the_24_are_exact_by_the_library_too) {
  if (machine_.cublas_lt_api() == nullptr) GTEST_SKIP() << "this machine has no cuBLASLt";
  CudaExecutor executor(
      *stream_, *pool_, {.num_multiprocessors = 4, .cublas_lt = machine_.cublas_lt_api()});
  constexpr int64_t kDepth = 1280;
  const Tensor weight = weight_of(32, kDepth);
  const Tensor x = codes(65, kDepth);
  std::ranges::fill(std::span(x.data_as<int8_t>(), 65 * kDepth), int8_t{127});
  for (int64_t column = 0; column < 32; ++column) {
    std::vector<int8_t> ones(kDepth, 127);
    ones[static_cast<size_t>(column)] = 126;
    set_int8_panel_column(weight, column, ones);
  }
  const Tensor scale = scales(65);
  std::array<Tensor, 1> outputs;
  const std::array<Tensor, 4> inputs{x, weight, Tensor{}, scale};
  executor.execute({.code = OpCode::linear}, inputs, outputs);
  stream_->synchronize();
  expect_num_products(0, 1);
  expect_same_bits(outputs[0], expected(x, weight, {}, scale, dtype()));
}

TEST_P(CudaInt8, touches_only_weights_before_the_kernels_ahead_are_done) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU does not tell what a kernel touches";
  for (const int64_t rows : {1, 9}) {
    const Tensor x = codes(rows, 1280);
    const Tensor weight = weight_of(64, 1280);
    const Tensor scale = scales(rows);
    const Tensor residual = random({rows, 64});
    const Tensor wanted = ints({1}, {static_cast<int32_t>(rows)});
    using Call = std::pair<OpCode, std::vector<Tensor>>;
    const std::vector<Call> calls = {{OpCode::linear_add, {x, weight, {}, residual, scale}},
                                     {OpCode::linear_silu_and_mul, {x, weight, {}, scale, {}}},
                                     {OpCode::lm_head, {x, weight, wanted, scale, {}}}};
    for (const auto& [code, inputs] : calls) {
      const Tensor want = run(code, inputs);
      const std::array<Tensor, 1> outputs{make(want.shape(), want.dtype())};
      std::vector<std::span<std::byte>> memory;
      for (const Tensor& tensor : {x, scale, residual, wanted, outputs[0]}) {
        memory.emplace_back(tensor.data_as<std::byte>(), tensor.type().bytes());
      }
      {
        const EarlierKernelsWork unfinished(memory);
        std::array<Tensor, 1> written = outputs;
        executor_.execute({.code = code}, inputs, written);
        stream_->synchronize();
      }
      expect_same_bits(outputs[0], want);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes,
                         CudaInt8,
                         testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& instance) {
                           return std::string(dtype_name(instance.param));
                         });

}  // namespace
}  // namespace reprise::kernels::cuda
