#include "reprise/kernels/cuda/eight_bit_product.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "reprise/base/element.h"
#include "reprise/device/error.h"
#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/tensor/float_panels.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"
#include "tests/support/kernels/float_panels.h"
#include "tests/support/kernels/products.h"

// Products of many rows with float8 weights in eight bits, against sums in double precision over
// activations that the oracle quantises itself.
namespace reprise::kernels::cuda {
namespace {

/// The float8 E4M3 number that is nearest to a value, by looking at all of them. Of two that are
/// equally near, the one whose code is even.
double nearest_float8(double value) {
  double best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code < 256; ++code) {
    const double number = to_float(Float8E4M3{static_cast<uint8_t>(code)});
    const double now = std::abs(number - value);
    if (std::isnan(number) || now > distance || (now == distance && code % 2 != 0)) continue;
    best = number;
    distance = now;
  }
  return best;
}

class CudaEightBits : public CudaOpsOf<DType> {
 protected:
  [[nodiscard]] DType dtype() const override { return GetParam(); }
  void SetUp() override {
    if (machine_.cublas_lt_api() == nullptr) GTEST_SKIP() << "this machine has no cuBLASLt";
    library_.emplace(*stream_, *pool_, options());
  }
  void TearDown() override {
    if (machine_.is_real()) return;
    EXPECT_EQ(machine_.driver().misuses(), std::vector<std::string>{});
  }
  [[nodiscard]] CudaExecutorOptions options() {
    return {.num_multiprocessors = 4, .cublas_lt = machine_.cublas_lt_api()};
  }

  Tensor weight_of(PanelFormat codec, int64_t columns, int64_t depth) {
    const TensorType type = float_panels_type(codec, columns, depth, dtype());
    Tensor weight =
        Tensor::own(type, device::PoolReference(pool_->allocate(type.bytes())), executor_);
    fill_float_panels(weight, random_);
    return weight;
  }
  Tensor run_many(OpCode code, std::vector<Tensor> inputs, OpAttributes attributes = {}) {
    std::array<Tensor, 1> outputs;
    inputs.resize(std::max(inputs.size(), definition_of(code).rule.operands.size));
    library_->execute({.code = code, .attributes = attributes}, inputs, outputs);
    if (!stream_->is_capturing()) stream_->synchronize();
    return outputs[0];
  }
  /// Products by the library so far. Only the fake counts them.
  [[nodiscard]] uint64_t num_products() {
    return machine_.is_real() ? 0 : machine_.cublas_lt().num_products();
  }
  void expect_num_products(uint64_t before, uint64_t count) {
    if (machine_.is_real()) return;
    EXPECT_EQ(num_products() - before, count);
  }
  /// x as codes of float8 times their scales, which are shared by `group` elements.
  Tensor quantised(const Tensor& x, int64_t group) {
    const Tensor out = make(x.shape(), DType::f32);
    for (int64_t row = 0; row < x.size(0); ++row) {
      for (int64_t begin = 0; begin < x.size(1); begin += group) {
        float largest = 1e-10F;
        for (int64_t k = begin; k < begin + group; ++k) {
          largest = std::max(largest, std::abs(static_cast<float>(element(x, row, k))));
        }
        const float scale = largest / 448.0F;
        for (int64_t k = begin; k < begin + group; ++k) {
          const float divided = static_cast<float>(element(x, row, k)) / scale;
          set_element(out, scale * nearest_float8(divided), row, k);
        }
      }
    }
    return out;
  }
  /// The same weight with elements of float32.
  Tensor elements(const Tensor& weight) {
    const Tensor rows = make(weight.shape(), DType::f32);
    for (int64_t n = 0; n < weight.size(0); ++n) {
      for (int64_t k = 0; k < weight.size(1); ++k) set_element(rows, element(weight, n, k), n, k);
    }
    return rows;
  }
  void expect_product(const Tensor& got,
                      const Tensor& x,
                      const Tensor& weight,
                      const Tensor& bias) {
    const Tensor want = make({x.size(0), weight.size(0)}, DType::f32);
    linear_ref(quantised(x, weight.layout().group(x.size(1))), elements(weight), bias, want);
    double squares = 0;
    for (const RowIndex& row : all_rows(want)) {
      for (int64_t n = 0; n < want.size(1); ++n) squares += std::pow(row_element(want, row, n), 2);
    }
    // The tensor cores of a GPU keep about 13 bits of a sum.
    const double size = std::sqrt(squares / static_cast<double>(want.num_elements()));
    const double rounding = machine_.is_real() ? 0.01 * size : 0;
    expect_close(got, want, rounding + 1e-5 * std::sqrt(static_cast<double>(x.size(1))));
  }
  static void expect_same_bits(const Tensor& got, const Tensor& want) {
    ASSERT_EQ(got.type(), want.type());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.type().bytes()), 0);
  }

  std::optional<CudaExecutor> library_;
};

constexpr std::array kCodecsOfFloat8 = {PanelFormat::f8e4m3_rows, PanelFormat::f8e4m3_g128};

TEST_P(CudaEightBits, products_are_those_of_quantised_activations) {
  for (const PanelFormat codec : kCodecsOfFloat8) {
    for (const int64_t depth : {128, 384}) {
      for (const int64_t rows : {65, 66, 67, 68, 130}) {
        if (depth == 384 && rows == 130) continue;
        SCOPED_TRACE(testing::Message()
                     << static_cast<int>(codec) << ": " << rows << " x " << depth);
        const Tensor x = random({rows, depth + 8}).with_layout({rows, depth}, {depth + 8, 1}, 0);
        const Tensor weight = weight_of(codec, depth == 384 ? 96 : 32, depth);
        const Tensor bias = rows % 2 == 0 ? Tensor{} : random({weight.size(0)});
        const uint64_t before = num_products();
        const Tensor out = run_many(OpCode::linear, {x, weight, bias});
        expect_num_products(before, 1);
        expect_product(out, x, weight, bias);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// A block quantises a row of more than 1,024 elements.
TEST_P(CudaEightBits, products_are_as_deep_as_those_of_8b) {
  if (dtype() != DType::bf16) GTEST_SKIP() << "the type of 8B";
  for (const PanelFormat codec : kCodecsOfFloat8) {
    for (const auto& [rows, depth] : {std::pair<int64_t, int64_t>{129, 4096}, {65, 14336}}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(codec) << ": " << rows << " x " << depth);
      const Tensor x = random({rows, depth});
      const Tensor weight = weight_of(codec, 32, depth);
      expect_product(run_many(OpCode::linear, {x, weight, {}}), x, weight, {});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaEightBits, a_depth_of_whole_groups_of_32_is_enough_for_scales_of_outputs) {
  const Tensor x = random({70, 160});
  const Tensor weight = weight_of(PanelFormat::f8e4m3_rows, 64, 160);
  expect_product(run_many(OpCode::linear, {x, weight, {}}), x, weight, {});
  expect_num_products(0, 1);
}

TEST_P(CudaEightBits, pieces_of_a_weight_give_the_same_product) {
  if (machine_.is_real()) GTEST_SKIP() << "only the fake changes its capability and counts";
  for (const PanelFormat codec : kCodecsOfFloat8) {
    const Tensor x = random({68, 256});
    const Tensor weight = weight_of(codec, 96, 256);
    // With a bias, float32 has sums that a kernel finishes.
    const Tensor bias = dtype() == DType::f32 ? Tensor{} : random({96});
    GemmLibrary library(machine_.cublas_lt().api(),
                        dynamic_cast<device::cuda::CudaStream&>(*stream_));
    const Tensor want = run_many(OpCode::linear, {x, weight, bias});
    using Case = std::pair<int64_t, uint64_t>;
    for (const auto& [piece, products] :
         {Case{1, 6}, Case{int64_t{48} * 256, 2}, Case{int64_t{80} * 256, 2}}) {
      const Tensor out = make({68, 96});
      const uint64_t before = num_products();
      ASSERT_TRUE(multiply_in_eight_bits(
          *library_, library, {.x = x, .weight = weight, .out = out, .bias = bias}, piece));
      stream_->synchronize();
      expect_num_products(before, products);
      expect_same_bits(out, want);
    }
  }
}

TEST_P(CudaEightBits, where_the_library_takes_no_scales_a_kernel_scales_its_sums) {
  if (machine_.is_real()) GTEST_SKIP() << "only the fake changes its capability and counts";
  const Tensor x = random({66, 256});
  const Tensor weight = weight_of(PanelFormat::f8e4m3_rows, 64, 256);
  const Tensor bias = random({64});
  for (const int capability : {89, 100}) {
    machine_.cublas_lt().set_capability(capability);
    CudaExecutor executor(*stream_, *pool_, options());
    std::array<Tensor, 1> outputs;
    const std::array<Tensor, 4> inputs{x, weight, bias, Tensor{}};
    const uint64_t before = num_products();
    executor.execute({.code = OpCode::linear}, inputs, outputs);
    stream_->synchronize();
    expect_num_products(before, 1);
    expect_product(outputs[0], x, weight, bias);
  }
}

TEST_P(CudaEightBits, otherwise_weights_are_expanded_and_activations_stay_as_they_are) {
  if (machine_.is_real()) GTEST_SKIP() << "only the fake changes its capability and counts";
  const Tensor x = random({66, 256}, 0.1);
  const auto expect_expanded = [&](CudaExecutor& executor, PanelFormat codec) {
    const Tensor weight = weight_of(codec, 64, 256);
    std::array<Tensor, 1> outputs;
    const std::array<Tensor, 4> inputs{x, weight, Tensor{}, Tensor{}};
    executor.execute({.code = OpCode::linear}, inputs, outputs);
    GemmLibrary library(machine_.cublas_lt().api(),
                        dynamic_cast<device::cuda::CudaStream&>(*stream_));
    const Tensor want = make({66, 64});
    ASSERT_TRUE(multiply_expanded(executor, library, {.x = x, .weight = weight, .out = want}));
    stream_->synchronize();
    expect_same_bits(outputs[0], want);
  };
  using Case = std::pair<int, PanelFormat>;
  for (const auto& [capability, codec] : {Case{80, PanelFormat::f8e4m3_rows},
                                          Case{80, PanelFormat::f8e4m3_g128},
                                          Case{89, PanelFormat::f8e4m3_g128},
                                          Case{100, PanelFormat::f8e4m3_g128},
                                          Case{90, PanelFormat::f8e5m2_rows},
                                          Case{90, PanelFormat::f8e5m2_g128},
                                          Case{90, PanelFormat::f4_g64}}) {
    machine_.cublas_lt().set_capability(capability);
    CudaExecutor executor(*stream_, *pool_, options());
    expect_expanded(executor, codec);
  }
  machine_.cublas_lt().set_capability(90);
  for (const PanelFormat codec : kCodecsOfFloat8) {
    CudaExecutor executor(*stream_, *pool_, options());
    executor.keep_activations();
    expect_expanded(executor, codec);
  }
}

TEST_P(CudaEightBits, few_rows_keep_their_activations) {
  for (const PanelFormat codec : kCodecsOfFloat8) {
    const Tensor x = random({64, 256});
    const Tensor weight = weight_of(codec, 64, 256);
    expect_same_bits(run_many(OpCode::linear, {x, weight, {}}),
                     run(OpCode::linear, {x, weight, {}}));
  }
  expect_num_products(0, 0);
}

TEST_P(CudaEightBits, fused_products_have_the_bits_of_the_ops_they_stand_for_and_replay) {
  for (const PanelFormat codec : kCodecsOfFloat8) {
    for (const int64_t rows : {66, 68}) {
      const Tensor x = random({rows, 256});
      const Tensor weight = weight_of(codec, 96, 256);
      const Tensor bias = random({96});
      const Tensor residual = random({rows, 96});
      const Tensor product = run_many(OpCode::linear, {x, weight, bias});
      using Call = std::pair<OpCode, std::vector<Tensor>>;
      for (const auto& [code, inputs] : {Call{OpCode::linear, {x, weight, bias}},
                                         Call{OpCode::linear_add, {x, weight, bias, residual}},
                                         Call{OpCode::linear_silu_and_mul, {x, weight, bias}}}) {
        const Tensor eager = run_many(code, inputs);
        const Tensor want = code == OpCode::linear       ? product
                            : code == OpCode::linear_add ? run(OpCode::add, {residual, product})
                                                         : run(OpCode::silu_and_mul, {product});
        expect_same_bits(eager, want);
        stream_->begin_capture();
        const Tensor out = run_many(code, inputs);
        const auto graph = stream_->end_capture();
        const auto exec = machine_.device().instantiate(*graph);
        std::memset(out.data(), 0xFF, out.type().bytes());
        exec->launch(*stream_);
        stream_->synchronize();
        expect_same_bits(out, eager);
      }
      if (HasFailure()) return;
    }
  }
}

TEST_P(CudaEightBits,
       groups_and_any_number_of_rows_take_no_launch_more_where_the_product_has_room) {
  const auto launches = [&](OpCode code, const std::vector<Tensor>& inputs) {
    (void)run_many(code, inputs);
    const uint64_t before = stream_->counters().kernel_launches;
    (void)run_many(code, inputs);
    return stream_->counters().kernel_launches - before;
  };
  const Tensor weight = weight_of(PanelFormat::f8e4m3_g128, 96, 256);
  for (const int64_t rows : {66, 67, 68}) {
    const Tensor x = random({rows, 256});
    // Rows are quantised, panels become rows of codes, the library multiplies.
    EXPECT_EQ(launches(OpCode::linear, {x, weight, {}}), rows == 68 ? 3U : 4U) << "or a copy";
    EXPECT_EQ(launches(OpCode::linear_add, {x, weight, {}, random({rows, 96})}), 4U);
    EXPECT_EQ(launches(OpCode::linear_silu_and_mul, {x, weight, {}}), 4U);
  }
}

TEST_P(CudaEightBits, logits_are_float32) {
  const Tensor x = random({70, 128});
  for (const PanelFormat codec : kCodecsOfFloat8) {
    const Tensor weight = weight_of(codec, 64, 128);
    const Tensor out = run_many(OpCode::lm_head, {x, weight, ints({1}, {70})});
    ASSERT_EQ(out.dtype(), DType::f32);
    expect_product(out, x, weight, {});
  }
}

TEST_P(CudaEightBits, the_largest_number_zeros_and_nans_stay_in_their_rows) {
  for (const PanelFormat codec : kCodecsOfFloat8) {
    const Tensor x = random({66, 256});
    const Tensor weight = weight_of(codec, 32, 256);
    for (int64_t k = 0; k < 256; ++k) set_element(x, 0.0, 3, k);
    set_element(x, 3000.0, 4, 7);
    const Tensor clean = run_many(OpCode::linear, {x, weight, {}});
    expect_product(clean, x, weight, {});
    set_element(x, NAN, 5, 39);
    const Tensor out = run_many(OpCode::linear, {x, weight, {}});
    for (int64_t row = 0; row < 66; ++row) {
      for (int64_t column = 0; column < 32; ++column) {
        const double got = element(out, row, column);
        EXPECT_TRUE(row == 5 ? std::isnan(got) : got == element(clean, row, column)) << row;
      }
    }
  }
}

TEST_P(CudaEightBits, a_failing_call_loses_one_product_and_nothing_else) {
  if (machine_.is_real() || dtype() != DType::bf16) GTEST_SKIP() << "calls of the fake fail";
  const Tensor x = random({66, 256});
  const Tensor weight = weight_of(PanelFormat::f8e4m3_g128, 32, 256);
  const Tensor bias = random({32});
  const auto product = [&](CudaExecutor& executor) {
    std::array<Tensor, 1> outputs;
    const std::array<Tensor, 4> inputs{x, weight, bias, Tensor{}};
    executor.execute({.code = OpCode::linear}, inputs, outputs);
    stream_->synchronize();
    return outputs[0];
  };
  const Tensor want = product(*library_);
  const size_t objects = machine_.cublas_lt().num_objects();
  bool has_failed = true;
  for (uint64_t k = 1; has_failed; ++k) {
    CudaExecutor executor(*stream_, *pool_, options());
    machine_.driver().fail_call(k);
    try {
      (void)product(executor);
    } catch (const device::DeviceError&) {
      EXPECT_FALSE(machine_.driver().failed_call().empty());
    }
    has_failed = !machine_.driver().failed_call().empty();
    machine_.driver().fail_call(0);
    expect_same_bits(product(executor), want);
  }
  EXPECT_EQ(machine_.cublas_lt().num_objects(), objects);
}

// Among 65 to 128 rows, and among rows whose number is a multiple of 4 with groups.
TEST_P(CudaEightBits, a_row_does_not_depend_on_the_number_of_rows_within_a_power_of_two) {
  for (const PanelFormat codec : kCodecsOfFloat8) {
    const Tensor x = random({128, 256});
    const Tensor weight = weight_of(codec, 32, 256);
    const Tensor all = run_many(OpCode::linear, {x, weight, {}});
    for (const int64_t rows : {65, 68, 100, 127}) {
      const Tensor some =
          run_many(OpCode::linear, {x.with_layout({rows, 256}, {256, 1}, 0), weight, {}});
      EXPECT_EQ(std::memcmp(some.data(), all.data(), some.type().bytes()), 0) << rows;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes,
                         CudaEightBits,
                         testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& instance) {
                           return std::string(dtype_name(instance.param));
                         });

}  // namespace
}  // namespace reprise::kernels::cuda
