#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/kernels/cuda/packed_expand.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"
#include "tests/support/fake_cuda/host_block_fixture.h"
#include "tests/support/kernels/float_panels.h"
#include "tests/support/kernels/products.h"

// Products whose weights stay float8 or four-bit floats on a GPU, against the oracle of the CPU's
// kernels.
namespace reprise::kernels::cuda {
namespace {

constexpr std::array kCodecs = {PanelFormat::f8e4m3_rows,
                                PanelFormat::f8e4m3_g128,
                                PanelFormat::f8e5m2_rows,
                                PanelFormat::f8e5m2_g128,
                                PanelFormat::f4_g64};

class CudaFloatPanels : public CudaOpsOf<DType> {
 protected:
  [[nodiscard]] DType dtype() const override { return GetParam(); }

  Tensor weight_of(PanelFormat codec, int64_t columns, int64_t depth) {
    const TensorType type = float_panels_type(codec, columns, depth, dtype());
    Tensor weight =
        Tensor::own(type, device::PoolReference(pool_->allocate(type.bytes())), executor_);
    fill_float_panels(weight, random_);
    return weight;
  }
  /// Rows with gaps of `gap` elements between them.
  Tensor strided(int64_t rows, int64_t depth, int64_t gap) {
    return random({rows, depth + gap}).with_layout({rows, depth}, {depth + gap, 1}, 0);
  }
  [[nodiscard]] double underflow() const { return dtype() == DType::f16 ? 0x1p-25 : 1e-30; }
  /// The elements of a weight, rounded to the type of the model.
  Tensor expanded(const Tensor& weight) {
    const Tensor rows = make(weight.shape());
    for (int64_t n = 0; n < weight.size(0); ++n) {
      for (int64_t k = 0; k < weight.size(1); ++k) set_element(rows, element(weight, n, k), n, k);
    }
    return rows;
  }
  void expect_product(const Tensor& x, const Tensor& weight, const Tensor& bias = {}) {
    const Tensor want = make({x.size(0), weight.size(0)}, DType::f32);
    linear_ref(x, weight, bias, want);
    expect_close(run(OpCode::linear, {x, weight, bias}),
                 want,
                 1e-5 * std::sqrt(static_cast<double>(x.size(1))));
  }
  static void expect_same_rows(const Tensor& some, const Tensor& all, int64_t first) {
    const size_t row_bytes = static_cast<size_t>(all.size(1)) * dtype_bytes(all.dtype());
    EXPECT_EQ(std::memcmp(some.data(),
                          all.data_as<std::byte>() + static_cast<size_t>(first) * row_bytes,
                          static_cast<size_t>(some.size(0)) * row_bytes),
              0)
        << some.size(0) << " rows from row " << first;
  }
  static void expect_same_bits(const Tensor& got, const Tensor& want) {
    ASSERT_EQ(got.type(), want.type());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.type().bytes()), 0);
  }
};

TEST_P(CudaFloatPanels, multiply_like_the_oracle_in_every_codec) {
  for (const PanelFormat codec : kCodecs) {
    // 1,152: more chunks of 64 elements than warps have turns of.
    for (const int64_t depth : {128, 384, 1152}) {
      const Tensor weight = weight_of(codec, depth == 384 ? 96 : 32, depth);
      for (const int64_t rows : {1, 7, 8, 9, 16, 17, 70}) {
        if (rows > 17 && depth != 384) continue;
        SCOPED_TRACE(testing::Message()
                     << static_cast<int>(codec) << ": " << rows << " x " << depth);
        const Tensor bias = rows % 2 == 0 ? Tensor{} : random({weight.size(0)});
        expect_product(rows == 9 ? strided(rows, depth, 8) : random({rows, depth}), weight, bias);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CudaFloatPanels, take_a_depth_that_is_no_whole_chunk) {
  for (const auto& [codec, depth] : {std::pair(PanelFormat::f8e4m3_rows, 32),
                                     std::pair(PanelFormat::f8e5m2_rows, 160),
                                     std::pair(PanelFormat::f8e4m3_rows, 544),
                                     std::pair(PanelFormat::f4_g64, 64),
                                     std::pair(PanelFormat::f4_g64, 576)}) {
    for (const int64_t rows : {1, 12}) {
      expect_product(random({rows, depth}), weight_of(codec, 64, depth));
      if (HasFatalFailure()) return;
    }
  }
}

// The kernels on the tensor cores load sixteen bytes of a row at once.
TEST_P(CudaFloatPanels, take_rows_in_any_place) {
  for (const PanelFormat codec : kCodecs) {
    const Tensor weight = weight_of(codec, 32, 256);
    const Tensor whole = random({5, 259});
    for (const int64_t first : {0, 1}) {
      const Tensor x = whole.with_layout({5, 256}, {259, 1}, first);
      expect_product(x, weight, random({32}));
      const Tensor product = run(OpCode::linear, {x, weight, {}});
      expect_same_bits(run(OpCode::linear_silu_and_mul, {x, weight, {}}),
                       run(OpCode::silu_and_mul, {product}));
      if (HasFailure()) return;
    }
  }
}

TEST_P(CudaFloatPanels, read_every_code_of_float8_as_its_number) {
  for (const PanelFormat codec : {PanelFormat::f8e4m3_rows, PanelFormat::f8e5m2_rows}) {
    const Tensor weight = weight_of(codec, 256, 32);
    // A row of x with a single 1 reads the element at this index from all columns.
    for (const int64_t k : {0, 1, 2, 15, 16, 31}) {
      const Tensor x = make({2, 32});
      for (int64_t i = 0; i < 64; ++i) set_element(x, i % 32 == k ? 1.0 : 0.0, i / 32, i % 32);
      const Tensor out = run(OpCode::linear, {x, weight, {}});
      for (int64_t n = 0; n < 256; ++n) {
        const double want = element(weight, n, k);
        ASSERT_NEAR(element(out, 1, n), want, underflow() + 1.01 * unit() * std::abs(want));
      }
    }
  }
}

TEST_P(CudaFloatPanels, give_a_row_the_same_bits_in_every_batch) {
  for (const PanelFormat codec : kCodecs) {
    const Tensor x = random({70, 1280});
    const Tensor weight = weight_of(codec, 32, 1280);
    const Tensor all = run(OpCode::linear, {x, weight, {}});
    for (const int64_t rows : {1, 2, 8, 9, 16, 17, 65}) {
      const Tensor some = x.with_layout({rows, 1280}, {1280, 1}, int64_t{3} * 1280);
      expect_same_rows(run(OpCode::linear, {some, weight, {}}), all, 3);
    }
  }
}

TEST_P(CudaFloatPanels, have_the_same_bits_in_every_order_of_threads) {
  for (const PanelFormat codec : {PanelFormat::f8e4m3_g128, PanelFormat::f4_g64}) {
    const Tensor x = random({9, 640});
    const Tensor weight = weight_of(codec, 64, 640);
    const Tensor want = run(OpCode::linear, {x, weight, {}});
    for (uint64_t number = 1; number <= 4; ++number) {
      const HostOrder order(number);
      expect_same_bits(run(OpCode::linear, {x, weight, {}}), want);
    }
  }
}

TEST_P(CudaFloatPanels, fused_products_have_the_bits_of_the_ops_they_stand_for) {
  OpAttributes attributes;
  attributes.epsilon = 1e-5F;
  for (const PanelFormat codec : kCodecs) {
    for (const int64_t rows : {1, 8, 9, 33}) {
      const Tensor x = random({rows, 256});
      const Tensor norm = random({256});
      const Tensor weight = weight_of(codec, 96, 256);
      const Tensor bias = rows == 8 ? Tensor{} : random({96});
      const Tensor product = run(OpCode::linear, {x, weight, bias});
      const Tensor residual = random({rows, 96});
      expect_same_bits(run(OpCode::linear_add, {x, weight, bias, residual}),
                       run(OpCode::add, {residual, product}));
      expect_same_bits(run(OpCode::linear_silu_and_mul, {x, weight, bias}),
                       run(OpCode::silu_and_mul, {product}));
      const Tensor normed = run(OpCode::rms_norm, {x, norm}, attributes);
      expect_same_bits(run(OpCode::linear_silu_and_mul, {x, weight, bias, {}, norm}, attributes),
                       run(OpCode::silu_and_mul, {run(OpCode::linear, {normed, weight, bias})}));
      if (HasFailure()) return;
    }
  }
}

TEST_P(CudaFloatPanels, rotate_and_write_what_two_launches_rotate_and_write) {
  const int64_t rows = 5;
  const Tensor x = random({rows, 128});
  const Tensor weight = weight_of(PanelFormat::f8e4m3_rows, 128, 128);  // two heads, k and v
  const Tensor positions = ints({rows}, {3, 4, 0, 7, 1});
  const Tensor slots = ints({rows}, {5, -1, 0, 9, 2});
  const Tensor angles = make({8, 32}, DType::f32);
  fill(angles, 1.0);
  std::vector<Tensor> caches;
  for (int i = 0; i < 4; ++i) {
    caches.push_back(make({2, 1, 8, 32}));
    std::memset(caches.back().data(), 0, caches.back().type().bytes());
  }
  OpAttributes attributes;
  attributes.length = 2;
  const Tensor fused = run(OpCode::linear_rope_kv_write,
                           {x, weight, {}, positions, angles, caches[0], caches[1], slots},
                           attributes);
  const Tensor product = run(OpCode::linear, {x, weight, {}});
  const auto part = [&](int64_t first, int64_t count) {
    return product.with_layout({rows, count, 32}, {128, 32, 1}, first * 32);
  };
  const Tensor want = run(
      OpCode::rope_kv_write,
      {part(0, 2), part(2, 1), part(3, 1), positions, angles, caches[2], caches[3], slots, {}, {}});
  expect_same_bits(fused, want);
  expect_same_bits(caches[0], caches[2]);
  expect_same_bits(caches[1], caches[3]);
}

TEST_P(CudaFloatPanels, logits_of_the_rows_that_the_device_counts) {
  const Tensor x = random({20, 128});
  for (const PanelFormat codec : {PanelFormat::f8e4m3_g128, PanelFormat::f4_g64}) {
    const Tensor weight = weight_of(codec, 64, 128);
    const Tensor want = make({20, 64}, DType::f32);
    linear_ref(x, weight, {}, want);
    for (const int32_t count : {0, 1, 16, 17, 20, 21, -1}) {
      std::array<Tensor, 1> out{make({20, 64}, DType::f32)};  // NaNs
      const std::array<Tensor, 5> in{x, weight, ints({1}, {count})};
      executor_.execute({.code = OpCode::lm_head}, in, out);
      stream_->synchronize();
      for (int64_t row = 0; row < 20; ++row) {
        const double got = element(out[0], row, 63);
        if (row < count) {
          EXPECT_NEAR(got, element(want, row, 63), 2e-4) << count;
        } else {
          EXPECT_TRUE(std::isnan(got)) << count << " rows touch row " << row;
        }
      }
    }
  }
}

TEST_P(CudaFloatPanels, keep_a_nan_in_its_own_row) {
  for (const PanelFormat codec : {PanelFormat::f8e5m2_g128, PanelFormat::f4_g64}) {
    const Tensor x = random({6, 256});
    const Tensor weight = weight_of(codec, 32, 256);
    const Tensor clean = run(OpCode::linear, {x, weight, {}});
    set_element(x, NAN, 4, 39);
    const Tensor out = run(OpCode::linear, {x, weight, {}});
    for (int64_t row = 0; row < 6; ++row) {
      for (int64_t column = 0; column < 32; ++column) {
        const double got = element(out, row, column);
        EXPECT_TRUE(row == 4 ? std::isnan(got) : got == element(clean, row, column));
      }
    }
  }
}

// Many rows: the weight becomes numbers, which the library multiplies.
TEST_P(CudaFloatPanels, expand_weights_in_pieces_for_the_library) {
  if (machine_.is_real()) GTEST_SKIP() << "the fake counts products";
  GemmLibrary library(machine_.cublas_lt().api(),
                      dynamic_cast<device::cuda::CudaStream&>(*stream_));
  for (const PanelFormat codec : kCodecs) {
    const Tensor weight = weight_of(codec, 96, 256);
    const Tensor x = random({65, 256});
    const Tensor bias = random({96});
    const Tensor want = make({65, 96}, DType::f32);
    linear_ref(x, expanded(weight), bias, want);
    for (const int64_t piece : {int64_t{1}, int64_t{48} * 256 * 4, kExpandedBytes}) {
      const uint64_t before = machine_.cublas_lt().num_products();
      const Tensor out = make({65, 96});
      ASSERT_TRUE(multiply_expanded(
          executor_, library, {.x = x, .weight = weight, .out = out, .bias = bias}, piece));
      stream_->synchronize();
      const int64_t columns = piece == 1 ? 16
                              : piece == kExpandedBytes
                                  ? 96
                                  : int64_t{48} * 4 / static_cast<int64_t>(dtype_bytes(dtype()));
      EXPECT_EQ(machine_.cublas_lt().num_products() - before,
                static_cast<uint64_t>((96 + columns - 1) / columns));
      expect_close(out, want, 1e-3);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaFloatPanels, products_of_many_rows_are_the_librarys) {
  if (machine_.is_real()) GTEST_SKIP() << "the fake counts products";
  CudaExecutor executor(
      *stream_, *pool_, {.num_multiprocessors = 4, .cublas_lt = &machine_.cublas_lt().api()});
  executor.keep_activations();
  const Tensor weight = weight_of(PanelFormat::f8e4m3_rows, 64, 128);
  for (const int64_t rows : {64, 65}) {
    const Tensor x = random({rows, 128}, 0.05);
    const Tensor residual = random({rows, 64});
    const uint64_t before = machine_.cublas_lt().num_products();
    for (const auto& [code, inputs] :
         {std::pair(OpCode::linear_add, std::vector<Tensor>{x, weight, {}, residual, {}}),
          std::pair(OpCode::linear_silu_and_mul, std::vector<Tensor>{x, weight, {}, {}, {}})}) {
      std::array<Tensor, 1> outputs;
      executor.execute({.code = code}, inputs, outputs);
      stream_->synchronize();
      std::vector<Tensor> in_rows = inputs;
      in_rows[1] = expanded(weight);
      expect_close(outputs[0], run(code, in_rows), 1e-3 + 60 * unit());
    }
    EXPECT_EQ(machine_.cublas_lt().num_products() - before, rows == 64 ? 0U : 2U);
  }
}

TEST_P(CudaFloatPanels, touch_only_weights_before_the_kernels_ahead_are_done) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU does not tell what a kernel touches";
  for (const PanelFormat codec : {PanelFormat::f8e4m3_g128, PanelFormat::f4_g64}) {
    for (const int64_t rows : {1, 9}) {
      const Tensor x = random({rows, 640});
      const Tensor weight = weight_of(codec, 64, 640);
      const Tensor residual = random({rows, 64});
      const Tensor wanted = ints({1}, {static_cast<int32_t>(rows)});
      using Call = std::pair<OpCode, std::vector<Tensor>>;
      const std::vector<Call> calls = {{OpCode::linear_add, {x, weight, {}, residual, {}}},
                                       {OpCode::linear_silu_and_mul, {x, weight, {}, {}, {}}},
                                       {OpCode::lm_head, {x, weight, wanted, {}, {}}}};
      for (const auto& [code, inputs] : calls) {
        const Tensor want = run(code, inputs);
        const std::array<Tensor, 1> outputs{make(want.shape(), want.dtype())};
        std::vector<std::span<std::byte>> memory;
        for (const Tensor& tensor : {x, residual, wanted, outputs[0]}) {
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
}

INSTANTIATE_TEST_SUITE_P(AllTypes,
                         CudaFloatPanels,
                         testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& instance) {
                           return std::string(dtype_name(instance.param));
                         });

}  // namespace
}  // namespace reprise::kernels::cuda
