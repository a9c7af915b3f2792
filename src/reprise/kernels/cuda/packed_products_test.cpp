#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/kernels/cuda/packed_expand.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"
#include "tests/support/fake_cuda/host_block_fixture.h"
#include "tests/support/kernels/packed_weights.h"
#include "tests/support/kernels/products.h"

// Products, tables and experts whose weights stay packed on a GPU, against the oracle of the CPU's
// kernels.
namespace reprise::kernels::cuda {
namespace {

class CudaPacked : public CudaOpsOf<DType> {
 protected:
  [[nodiscard]] DType dtype() const override { return GetParam(); }

  Tensor random_weight(const std::vector<PanelPart>& parts, int64_t depth) {
    const TensorType type = packed_weight_type(parts, depth, dtype());
    Tensor weight =
        Tensor::own(type, device::PoolReference(pool_->allocate(type.bytes())), executor_);
    fill_packed_weight(weight, parts, random_);
    return weight;
  }
  Tensor random_weight(PanelFormat format, int64_t columns, int64_t depth) {
    return random_weight({{.format = format, .columns = columns}}, depth);
  }
  Tensor silu_and_mul_quantized(std::vector<Tensor> inputs) {
    OpAttributes attributes;
    attributes.type.dtype = DType::i8;
    return run(OpCode::linear_silu_and_mul_quantize_blocks, std::move(inputs), attributes);
  }
  /// For each block of the depth a term of up to 0.1 * 128 * 3 is added.
  static double noise_of(const Tensor& q) { return 4e-5 * static_cast<double>(q.size(1)) / 40; }

  void expect_product(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor q = quantized(x);
    const Tensor want = make({x.size(0), weight.size(0)}, DType::f32);
    linear_ref(q, weight, bias, want);
    expect_close(run(OpCode::linear, {q, weight, bias}), want, noise_of(q));
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

TEST_P(CudaPacked, multiplies_like_the_oracle_in_every_format) {
  for (const PanelFormat format : all_panel_formats()) {
    // More chunks of the depth than warps, and a last chunk that is shorter where the format allows
    // it.
    const int64_t depth = 1024 + panel_group_elements(format);
    const Tensor weight = random_weight(format, 48, depth);
    const Tensor bias = random({48});
    for (int64_t rows : {1, 7, 19}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(format) << ", " << rows << " rows");
      expect_product(random({rows, depth}), weight, bias);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaPacked, multiplies_like_the_oracle_at_edges_of_rows_columns_and_depth) {
  for (const PanelFormat format : {PanelFormat::q8_0, PanelFormat::q4_1, PanelFormat::int4_g32}) {
    for (int64_t rows : {1, 8, 9, 16, 17, 32, 33, 257}) {
      for (int64_t columns : {1, 16, 17, 80}) {
        if (rows > 33 && columns != 17) continue;
        for (int64_t depth : {32, 288}) {
          SCOPED_TRACE(testing::Message() << rows << " x " << columns << " x " << depth);
          expect_product(
              random({rows, depth}), random_weight(format, columns, depth), random({columns}));
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(CudaPacked, multiplies_with_parts_in_different_formats) {
  const Tensor weight = random_weight({{.format = PanelFormat::q4_k, .columns = 33},
                                       {.format = PanelFormat::q8_0, .columns = 16},
                                       {.format = PanelFormat::q6_k, .columns = 7},
                                       {.format = PanelFormat::q5_k, .columns = 20}},
                                      512);
  for (int64_t rows : {1, 9, 40}) expect_product(random({rows, 512}), weight, random({76}));
}

// For one row, and for many rows in any batch: also beyond 32 rows, where rows of other weights
// have no such promise.
TEST_P(CudaPacked, gives_a_row_the_same_bits_in_every_batch) {
  for (const PanelFormat format : {PanelFormat::int4_g128, PanelFormat::q4_k, PanelFormat::q6_k}) {
    const Tensor q = quantized(random({70, 1280}));
    const Tensor weight = random_weight(format, 48, 1280);
    const Tensor all = run(OpCode::linear, {q, weight, {}});
    for (int64_t rows : {1, 2, 8, 9, 16, 17, 32, 65}) {
      const Tensor some = q.with_layout({rows, q.size(1)}, {q.size(1), 1}, 3 * q.size(1));
      expect_same_rows(run(OpCode::linear, {some, weight, {}}), all, 3);
    }
  }
}

TEST_P(CudaPacked, fused_products_have_the_bits_of_the_ops_they_stand_for) {
  for (const int64_t columns : {32, 96}) {
    for (const int64_t rows : {1, 8, 9, 33}) {
      const Tensor q = quantized(random({rows, 320}));
      const PanelPart half = {.format = PanelFormat::q5_0, .columns = columns};
      const Tensor weight =
          random_weight({half, {.format = PanelFormat::q8_0, .columns = columns}}, 320);
      const Tensor bias = rows == 8 ? Tensor{} : random({2 * columns});
      const Tensor product = run(OpCode::linear, {q, weight, bias});
      const Tensor residual = random({rows, 2 * columns});
      expect_same_bits(run(OpCode::linear_add, {q, weight, bias, residual}),
                       run(OpCode::add, {residual, product}));
      const Tensor gated = run(OpCode::silu_and_mul, {product});
      expect_same_bits(run(OpCode::linear_silu_and_mul, {q, weight, bias}), gated);
      expect_same_bits(silu_and_mul_quantized({q, weight, bias}), quantized(gated));
      if (HasFailure()) return;
    }
  }
}

// Gates and ups are parts of their own, which may end within a panel.
TEST_P(CudaPacked, pairs_gates_and_ups_that_are_no_whole_panels) {
  for (const int64_t columns : {8, 24, 40}) {
    const PanelPart half = {.format = PanelFormat::q4_0, .columns = columns};
    const Tensor weight = random_weight({half, half}, 64);
    const Tensor q = quantized(random({3, 64}));
    const Tensor product = run(OpCode::linear, {q, weight, {}});
    expect_same_bits(run(OpCode::linear_silu_and_mul, {q, weight, {}}),
                     run(OpCode::silu_and_mul, {product}));
  }
}

TEST_P(CudaPacked, logits_of_the_rows_that_the_device_counts) {
  const Tensor q = quantized(random({40, 64}));
  const Tensor weight = random_weight(PanelFormat::q4_0, 50, 64);
  const Tensor want = make({40, 50}, DType::f32);
  linear_ref(q, weight, {}, want);
  for (int32_t count : {0, 1, 16, 17, 40, 41, -1}) {
    std::array<Tensor, 1> out{make({40, 50}, DType::f32)};  // NaNs
    const std::array<Tensor, 5> in{q, weight, ints({1}, {count})};
    executor_.execute({.code = OpCode::lm_head}, in, out);
    stream_->synchronize();
    for (int64_t row = 0; row < 40; ++row) {
      const double got = element(out[0], row, 49);
      if (row < count) {
        EXPECT_NEAR(got, element(want, row, 49), 1e-4) << count;
      } else {
        EXPECT_TRUE(std::isnan(got)) << count << " rows touch row " << row;
      }
    }
  }
}

TEST_P(CudaPacked, keeps_a_nan_in_its_own_row) {
  const Tensor x = random({6, 256});
  const Tensor weight = random_weight(PanelFormat::q4_k, 16, 256);
  const Tensor clean = run(OpCode::linear, {quantized(x), weight, {}});
  set_element(x, NAN, 4, 39);
  const Tensor out = run(OpCode::linear, {quantized(x), weight, {}});
  for (int64_t row = 0; row < 6; ++row) {
    for (int64_t column = 0; column < 16; ++column) {
      const double got = element(out, row, column);
      if (row == 4) {
        EXPECT_TRUE(std::isnan(got));
      } else {
        EXPECT_EQ(got, element(clean, row, column));
      }
    }
  }
}

TEST_P(CudaPacked, looks_up_rows_of_packed_tables) {
  for (const PanelFormat format : all_panel_formats()) {
    const Tensor table = random_weight(
        {{.format = format, .columns = 33}, {.format = PanelFormat::q8_0, .columns = 20}}, 512);
    const std::vector<int32_t> ids{0, 15, 16, 32, 33, 52, -1, 53};
    const Tensor rows = run(OpCode::embedding, {ints({8}, ids), table});
    for (int64_t row = 0; row < 8; ++row) {
      const int64_t id = ids[static_cast<size_t>(row)];
      const bool is_there = id >= 0 && id < 53;
      for (int64_t i = 0; i < 512; ++i) {
        const double want = is_there ? packed_element(table, id, i) : 0.0;
        ASSERT_NEAR(element(rows, row, i), want, 1e-6 + 1.01 * unit() * std::abs(want))
            << static_cast<int>(format) << ", row " << id << ", element " << i;
      }
    }
  }
}

TEST_P(CudaPacked, multiplies_with_experts_like_the_oracle) {
  for (const PanelFormat format : {PanelFormat::q8_0, PanelFormat::q4_k, PanelFormat::mxfp4}) {
    const Tensor weight = random_weight(format, int64_t{3} * 48, 256);
    const Tensor experts = as_experts(weight, 3);
    const Tensor bias = random({3, 48});
    const std::vector<int32_t> chosen{2, 0, 1, 2, -1, 1, 0, 2, 1, -1};
    const Tensor choice = ints({5, 2}, chosen);
    for (const int64_t x_rows : {5, 10}) {  // a row for each token, and for each of its experts
      const Tensor q = quantized(random({x_rows, 256}));
      const Tensor want = make({10, 48}, DType::f32);
      expert_linear_ref(q, experts, bias, choice, want);
      expect_close(run(OpCode::expert_linear, {q, experts, bias, choice}), want, noise_of(q));
      if (HasFatalFailure()) return;
    }
  }
}

// The arithmetic of quantize_blocks.inl, in float32.
ActivationBlock quantized_block(const Tensor& x, int64_t row, int64_t begin) {
  ActivationBlock block = {};
  float magnitude = 0;
  for (int64_t i = begin; i < begin + kPanelBlock; ++i) {
    magnitude = std::max(magnitude, std::abs(static_cast<float>(element(x, row, i))));
  }
  const float inverse = magnitude > 0 ? 127.0F / magnitude : 0.0F;
  block.scale = magnitude / 127.0F;
  for (int i = 0; i < kPanelBlock; ++i) {
    const float code = std::nearbyint(static_cast<float>(element(x, row, begin + i)) * inverse);
    block.codes[i] = static_cast<int8_t>(code);
    block.sums[i / 16] = static_cast<int16_t>(block.sums[i / 16] + block.codes[i]);
  }
  return block;
}

TEST_P(CudaPacked, quantises_with_the_bits_of_the_cpu) {
  for (const int64_t width : {32, 288, 1056, 2048}) {
    const Tensor x = random({5, width});
    for (int64_t i = 0; i < 32; ++i) set_element(x, 0.0, 2, i);
    const Tensor q = quantized(x);
    for (int64_t row = 0; row < 5; ++row) {
      for (int64_t b = 0; b < width / kPanelBlock; ++b) {
        const ActivationBlock want = quantized_block(x, row, b * kPanelBlock);
        const auto* got = q.data_as<ActivationBlock>() + row * (width / kPanelBlock) + b;
        ASSERT_TRUE(std::ranges::equal(std::as_bytes(std::span(got, 1)),
                                       std::as_bytes(std::span(&want, 1))))
            << "row " << row << ", block " << b;
      }
    }
    const Tensor weight = random({width});
    OpAttributes attributes;
    attributes.type.dtype = DType::i8;
    attributes.epsilon = 1e-6F;
    expect_same_bits(run(OpCode::rms_norm_quantize_blocks, {x, weight}, attributes),
                     quantized(run(OpCode::rms_norm, {x, weight}, attributes)));
  }
}

TEST_P(CudaPacked, quantises_blocks_without_a_number_or_with_tiny_ones) {
  const Tensor x = make({1, 128});
  for (int64_t i = 0; i < 128; ++i) set_element(x, i % 3 == 0 ? 0.0 : -1.0, 0, i);
  set_element(x, std::numeric_limits<double>::infinity(), 0, 5);
  set_element(x, std::nan(""), 0, 32 + 20);
  // 127 divided by the largest magnitude overflows float32.
  const bool has_tiny = dtype() != DType::f16;
  for (int64_t i = 64; i < 96 && has_tiny; ++i) set_element(x, i % 3 == 0 ? 0.0 : -2e-39, 0, i);
  const Tensor q = quantized(x);
  const auto* blocks = q.data_as<ActivationBlock>();
  for (int i = 0; i < kPanelBlock; ++i) {
    EXPECT_EQ(blocks[0].codes[i], 0);
    EXPECT_EQ(blocks[1].codes[i], 0);
    EXPECT_EQ(blocks[2].codes[i], (64 + i) % 3 == 0 ? 0 : -127);
  }
  EXPECT_TRUE(std::isinf(blocks[0].scale));
  EXPECT_TRUE(std::isnan(blocks[1].scale));
  EXPECT_EQ(blocks[2].sums[0] + blocks[2].sums[1], -127 * (32 - 10));
}

// Many rows: weight and rows become numbers, which the library multiplies.
TEST_P(CudaPacked, expands_weights_in_pieces_for_the_library) {
  if (machine_.is_real()) GTEST_SKIP() << "the fake counts products";
  GemmLibrary library(machine_.cublas_lt().api(),
                      dynamic_cast<device::cuda::CudaStream&>(*stream_));
  const Tensor weight = random_weight({{.format = PanelFormat::q4_k, .columns = 40},
                                       {.format = PanelFormat::q8_0, .columns = 56},
                                       {.format = PanelFormat::q6_k, .columns = 64}},
                                      256);
  for (const int64_t rows : {65, 70}) {
    const Tensor q = quantized(random({rows, 256}));
    const Tensor bias = random({160});
    const Tensor want = make({rows, 160}, DType::f32);
    linear_ref(q, weight, bias, want);
    // Weight and rows are rounded to the type of the model.
    const double noise = 1e-4 + 400 * unit();
    for (const int64_t piece : {int64_t{1}, int64_t{48} * 256 * 4, kExpandedBytes}) {
      const uint64_t before = machine_.cublas_lt().num_products();
      const Tensor out = make({rows, 160});
      ASSERT_TRUE(multiply_expanded(
          executor_, library, {.x = q, .weight = weight, .out = out, .bias = bias}, piece));
      stream_->synchronize();
      const uint64_t columns = piece == 1                ? 16
                               : piece == kExpandedBytes ? 160
                                                         : size_t{48} * 4 / dtype_bytes(dtype());
      EXPECT_EQ(machine_.cublas_lt().num_products() - before, (160 + columns - 1) / columns);
      expect_close(out, want, noise);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaPacked, products_of_many_rows_are_the_librarys) {
  if (machine_.is_real()) GTEST_SKIP() << "the fake counts products";
  CudaExecutor executor(
      *stream_, *pool_, {.num_multiprocessors = 4, .cublas_lt = &machine_.cublas_lt().api()});
  const PanelPart half = {.format = PanelFormat::q4_0, .columns = 48};
  const Tensor weight = random_weight({half, half}, 64);
  const double noise = 1e-4 + 24 * unit();
  for (const int64_t rows : {64, 65}) {
    const Tensor q = quantized(random({rows, 64}));
    const Tensor residual = random({rows, 96});
    const Tensor few = run(OpCode::linear_add, {q, weight, {}, residual});
    const Tensor gated = run(OpCode::linear_silu_and_mul, {q, weight, {}});
    const uint64_t before = machine_.cublas_lt().num_products();
    const auto run_with_library = [&](OpCode code, std::vector<Tensor> inputs) {
      std::array<Tensor, 1> outputs;
      inputs.resize(definition_of(code).rule.operands.size);
      executor.execute({.code = code}, inputs, outputs);
      stream_->synchronize();
      return outputs[0];
    };
    expect_close(run_with_library(OpCode::linear_add, {q, weight, {}, residual}), few, noise);
    expect_close(run_with_library(OpCode::linear_silu_and_mul, {q, weight}), gated, 10 * noise);
    const Tensor all = ints({1}, {static_cast<int32_t>(rows)});
    const Tensor logits = run(OpCode::lm_head, {q, weight, all});
    expect_close(run_with_library(OpCode::lm_head, {q, weight, all}), logits, noise);
    EXPECT_EQ(machine_.cublas_lt().num_products() - before, rows == 64 ? 0U : 3U);
  }
}

TEST_P(CudaPacked, touches_only_weights_before_the_kernels_ahead_are_done) {
  if (machine_.is_real()) GTEST_SKIP() << "a GPU does not tell what a kernel touches";
  for (const int64_t rows : {1, 9}) {
    const Tensor q = quantized(random({rows, 1280}));
    const Tensor weight = random_weight(PanelFormat::int4_g128, 64, 1280);
    const Tensor bias = random({64});
    const Tensor residual = random({rows, 64});
    const Tensor wanted = ints({1}, {static_cast<int32_t>(rows)});
    using Call = std::pair<OpCode, std::vector<Tensor>>;
    const std::vector<Call> calls = {{OpCode::linear_add, {q, weight, bias, residual, {}}},
                                     {OpCode::linear_silu_and_mul, {q, weight, bias, {}, {}}},
                                     {OpCode::lm_head, {q, weight, wanted, {}, {}}}};
    for (const auto& [code, inputs] : calls) {
      const Tensor want = run(code, inputs);
      const std::array<Tensor, 1> outputs{make(want.shape(), want.dtype())};
      std::vector<std::span<std::byte>> memory;
      for (const Tensor& tensor : {q, residual, wanted, outputs[0]}) {
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

TEST_P(CudaPacked, refuses_layouts_that_it_has_no_kernels_for) {
  const TensorType type{DType::bf16, {32, 128}, column_panels_layout()};
  const Tensor weight =
      Tensor::own(type, device::PoolReference(pool_->allocate(type.bytes())), executor_);
  try {
    run(OpCode::linear, {make({1, 128}, DType::bf16), weight, {}});
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("has no kernel for a weight of"), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes,
                         CudaPacked,
                         testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& instance) {
                           return std::string(dtype_name(instance.param));
                         });

}  // namespace
}  // namespace reprise::kernels::cuda
