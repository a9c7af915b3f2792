#include "reprise/kernels/linear/linear.h"

#include <cmath>
#include <cstring>

#include "reprise/base/error.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

class ScaledLinear : public KernelTest {
 protected:
  // Any bits but those of a float8 NaN.
  Tensor random_bytes(Shape shape, DType eight_bits) {
    Tensor tensor = make(shape, eight_bits);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      auto bits = static_cast<uint8_t>(random_());
      if (eight_bits == DType::f8e4m3 && (bits & 0x7fU) == 0x7fU) bits = 0;
      tensor.data_as<uint8_t>()[i] = bits;
    }
    return tensor;
  }
  Tensor widened(const Tensor& x) {
    const Tensor wide = make(x.shape(), DType::f32);
    for (int64_t row = 0; row < x.size(0); ++row) {
      for (int64_t i = 0; i < x.size(1); ++i) set_element(wide, element(x, row, i), row, i);
    }
    return wide;
  }

  // x @ weight^T in float32: for int8 the exact sum, rounded; for float8 the result of linear.
  Tensor product(const Tensor& x, const Tensor& weight) {
    const Tensor sums = make({x.size(0), weight.size(0)}, DType::f32);
    if (x.dtype() == DType::f8e4m3) {
      launch_linear(stream_, kernel_table(GetParam().isa), widened(x), widened(weight), {}, sums);
      return sums;
    }
    for (int64_t row = 0; row < x.size(0); ++row) {
      for (int64_t column = 0; column < weight.size(0); ++column) {
        int64_t sum = 0;
        for (int64_t i = 0; i < x.size(1); ++i)
          sum += int_element(x, row, i) * int_element(weight, column, i);
        set_element(sums, static_cast<double>(sum), row, column);
      }
    }
    return sums;
  }

  struct Operands {
    Tensor x;
    Tensor scale;
    Tensor weight;
    Tensor weight_scale;
    Tensor bias;
  };
  Operands make_operands(int64_t rows, int64_t columns, int64_t depth, DType eight_bits) {
    return {.x = random_bytes({rows, depth}, eight_bits),
            .scale = random({rows}, DType::f32, 0.01),
            .weight = random_bytes({columns, depth}, eight_bits),
            .weight_scale = random({columns}, DType::f32, 0.01),
            .bias = {}};
  }
  Tensor run(const Operands& o) {
    const Tensor out = make({o.x.size(0), o.weight.size(0)});
    launch_scaled_linear(stream_,
                         kernels(),
                         {.x = o.x,
                          .scale = o.scale,
                          .weight = o.weight,
                          .weight_scale = o.weight_scale,
                          .bias = o.bias,
                          .out = out});
    return out;
  }
  void expect_exact(const Operands& o) {
    const Tensor out = run(o);
    const Tensor sums = product(o.x, o.weight);
    const Tensor want = make(out.shape());
    for (int64_t row = 0; row < out.size(0); ++row) {
      const auto scale = static_cast<float>(element(o.scale, o.scale.size(0) == 1 ? 0 : row));
      for (int64_t column = 0; column < out.size(1); ++column) {
        float value = static_cast<float>(element(sums, row, column)) * scale;
        value *= static_cast<float>(element(o.weight_scale, column));
        if (o.bias.defined()) value += static_cast<float>(element(o.bias, column));
        set_element(want, value, row, column);
      }
    }
    expect_same_bits(out, want);
  }

  static constexpr DType kEightBits[] = {DType::i8, DType::f8e4m3};
};

TEST_P(ScaledLinear, has_exact_bits_at_edges_of_rows_columns_and_depth) {
  for (DType eight_bits : kEightBits) {
    for (int64_t rows : {1, 2, 3, 5, 33}) {
      for (int64_t columns : {1, 9}) {
        for (int64_t depth : {1, 7, 17, 33, 65, 128}) {
          SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " x " << depth);
          expect_exact(make_operands(rows, columns, depth, eight_bits));
        }
      }
    }
  }
}

TEST_P(ScaledLinear, adds_the_bias_and_takes_one_scale_for_all) {
  for (DType eight_bits : kEightBits) {
    Operands operands = make_operands(5, 37, 40, eight_bits);
    operands.bias = random({37});
    expect_exact(operands);
    operands.scale = random({1}, DType::f32, 0.01);
    expect_exact(operands);
  }
}

TEST_P(ScaledLinear, reads_strided_rows) {
  for (DType eight_bits : kEightBits) {
    Operands operands = make_operands(5, 9, 33, eight_bits);
    operands.x = random_bytes({5, 40}, eight_bits).with_layout({5, 33}, {40, 1}, 5);
    expect_exact(operands);
  }
}

TEST_P(ScaledLinear, sums_the_largest_int8_products_exactly) {
  Operands operands = make_operands(1, 1, 131'071, DType::i8);
  std::memset(operands.x.data(), 0x80, operands.x.type().bytes());
  std::memset(operands.weight.data(), 0x80, operands.weight.type().bytes());
  expect_exact(operands);
  EXPECT_THROW(run(make_operands(1, 1, 131'072, DType::i8)), InvalidArgument);
}

TEST_P(ScaledLinear, agrees_with_the_reference) {
  for (DType eight_bits : kEightBits) {
    Operands operands = make_operands(3, 33, 100, eight_bits);
    operands.bias = random({33});
    const Tensor out = run(operands);
    const Tensor want = make_ref(out.shape());
    scaled_linear_ref({.x = operands.x,
                       .scale = operands.scale,
                       .weight = operands.weight,
                       .weight_scale = operands.weight_scale,
                       .bias = operands.bias,
                       .out = want});
    expect_close(out, want, 1.01 * rounding_error(dtype()) + 1e-6, 1e-4);
  }
}

TEST_P(ScaledLinear, widens_every_float8) {
  // One element of the row is not zero, and the weight has only ones.
  Operands operands = make_operands(256, 1, 17, DType::f8e4m3);
  std::memset(operands.x.data(), 0, operands.x.type().bytes());
  for (int64_t row = 0; row < 256; ++row) {
    operands.x.data_as<uint8_t>()[row * 17 + row % 17] = static_cast<uint8_t>(row);
    set_element(operands.scale, 1.0, row);
  }
  std::memset(operands.weight.data(), 0x38, operands.weight.type().bytes());  // 1
  set_element(operands.weight_scale, 1.0, 0);
  const Tensor out = run(operands);
  for (int64_t row = 0; row < 256; ++row) {
    const double want = element(operands.x, row, row % 17);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(element(out, row, 0))) << row;
    } else {
      EXPECT_EQ(element(out, row, 0), want) << row;
    }
  }
}

TEST_P(ScaledLinear, gives_a_row_the_same_bits_in_every_batch) {
  for (DType eight_bits : kEightBits) {
    const Operands all = make_operands(70, 37, 127, eight_bits);
    const Tensor want = run(all);
    for (int64_t rows : {1, 2, 3, 5, 17, 64}) {
      Operands some = all;
      some.x = all.x.with_layout({rows, 127}, {127, 1}, 3 * 127);
      some.scale = all.scale.with_layout({rows}, {1}, 3);
      const Tensor out = run(some);
      for (int64_t row = 0; row < rows; ++row) expect_same_row(out, row, want, 3 + row);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         ScaledLinear,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
