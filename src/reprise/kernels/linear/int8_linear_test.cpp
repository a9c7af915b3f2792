#include <array>
#include <cstring>
#include <vector>

#include "reprise/kernels/add/add.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "reprise/tensor/int8_panels.h"
#include "tests/support/kernels/int8_panels.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

class Int8Linear : public KernelTest {
 protected:
  // Random codes over the whole range of int8, -128 included.
  Tensor random_codes(const Shape& shape) {
    const Tensor codes = make(shape, DType::i8);
    for (int64_t row = 0; row < shape[0]; ++row) {
      for (int64_t i = 0; i < shape[1]; ++i) set_element(codes, code(random_), row, i);
    }
    return codes;
  }
  Tensor random_weight(int64_t columns, int64_t depth) {
    const Tensor weight = make(int8_panels_type(columns, depth, dtype()));
    fill_int8_panels(weight, random_);
    return weight;
  }
  Tensor random_scales(int64_t rows) {
    const Tensor scales = make({rows}, DType::f32);
    for (int64_t row = 0; row < rows; ++row) {
      set_element(scales, std::uniform_real_distribution<float>(0.001F, 0.02F)(random_), row);
    }
    return scales;
  }

  // Computes the formula of the header, with the sum in 64 bits.
  Tensor expected(const Tensor& x, const Tensor& scale, const Tensor& weight, const Tensor& bias) {
    const Tensor out = make({x.size(0), weight.size(0)});
    for (int64_t row = 0; row < x.size(0); ++row) {
      for (int64_t column = 0; column < weight.size(0); ++column) {
        int64_t sum = 0;
        for (int64_t i = 0; i < x.size(1); ++i) {
          sum += static_cast<int64_t>(element(x, row, i)) * int8_panel_code(weight, column, i);
        }
        float value = static_cast<float>(sum) * static_cast<float>(element(scale, row));
        value *= int8_panel_scale(weight, column);
        if (bias.defined()) value += static_cast<float>(element(bias, column));
        set_element(out, value, row, column);
      }
    }
    return out;
  }
  Tensor product(const Tensor& x, const Tensor& scale, const Tensor& weight, const Tensor& bias) {
    const Tensor out = make({x.size(0), weight.size(0)});
    launch_linear(stream_, kernels(), x, weight, bias, out, scale);
    return out;
  }

  std::uniform_int_distribution<int> code{-128, 127};
};

TEST_P(Int8Linear, is_exact_at_edges_of_rows_columns_and_depth) {
  for (int64_t rows : {1, 2, 5, 7, 15, 16, 17, 32, 33, 40}) {
    for (int64_t columns : {32, 96}) {
      for (int64_t depth : {64, 192}) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " x " << depth);
        const Tensor x = random_codes({rows, depth});
        const Tensor scale = random_scales(rows);
        const Tensor weight = random_weight(columns, depth);
        const Tensor bias = columns == 32 ? Tensor{} : random({columns});
        expect_same_bits(product(x, scale, weight, bias), expected(x, scale, weight, bias));
      }
    }
  }
}

// The scales come from a checkpoint; they are not computed for each token.
TEST_P(Int8Linear, takes_one_scale_for_all_rows) {
  for (int64_t rows : {1, 3, 17, 40}) {
    SCOPED_TRACE(testing::Message() << rows << " rows");
    const Tensor x = random_codes({rows, 128});
    const Tensor weight = random_weight(64, 128);
    const Tensor one = random_scales(1);
    const Tensor each = make({rows}, DType::f32);
    for (int64_t row = 0; row < rows; ++row) set_element(each, element(one, 0), row);
    const Tensor bias = random({64});
    expect_same_bits(product(x, one, weight, bias), expected(x, each, weight, bias));
  }
}

// There are more rows than a worker joins, more columns, and more of the depth than fits into a
// cache.
TEST_P(Int8Linear, is_exact_for_large_batches_and_depths) {
  for (const auto& [rows, columns, depth] : {std::array<int64_t, 3>{300, 32, 64},
                                             {40, 352, 64},
                                             {65, 64, 1088},
                                             {258, 32, 4352},
                                             {7, 96, 2112}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " x " << depth);
    const Tensor x = random_codes({rows, depth});
    const Tensor scale = random_scales(rows);
    const Tensor weight = random_weight(columns, depth);
    expect_same_bits(product(x, scale, weight, {}), expected(x, scale, weight, {}));
  }
}

TEST_P(Int8Linear, does_not_saturate_with_the_largest_codes) {
  const int64_t depth = 8192;
  for (const auto& [rows, value] :
       {std::array<int64_t, 2>{3, -128}, {3, 127}, {9, -128}, {9, 127}}) {
    const Tensor x = make({rows, depth}, DType::i8);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < depth; ++i) set_element(x, row % 2 == 1 ? -128 : 127, row, i);
    }
    const Tensor weight = random_weight(32, depth);
    for (int64_t column = 0; column < 32; ++column) {
      set_int8_panel_column(weight, column, std::vector<int8_t>(depth, static_cast<int8_t>(value)));
    }
    const Tensor scale = random_scales(rows);
    expect_same_bits(product(x, scale, weight, {}), expected(x, scale, weight, {}));
  }
}

TEST_P(Int8Linear, gives_a_row_the_same_bits_in_any_batch) {
  const Tensor x = random_codes({70, 128});
  const Tensor scale = random_scales(70);
  const Tensor weight = random_weight(64, 128);
  const Tensor all = product(x, scale, weight, {});
  for (int64_t count : {1, 3, 16, 69}) {
    const int64_t first = 70 - count;
    const Tensor some = product(x.with_layout({count, 128}, {128, 1}, first * 128),
                                scale.with_layout({count}, {1}, first),
                                weight,
                                {});
    expect_same_bits(some, all.with_layout({count, 64}, {64, 1}, first * 64));
  }
}

TEST_P(Int8Linear, adds_with_the_bits_of_two_kernels) {
  for (int64_t rows : {1, 6, 35}) {
    const Tensor x = random_codes({rows, 64});
    const Tensor scale = random_scales(rows);
    const Tensor weight = random_weight(96, 64);
    const Tensor bias = rows == 6 ? Tensor{} : random({96});
    const Tensor residual = random_strided({rows, 96});
    const Tensor apart = make({rows, 96});
    launch_add(stream_, kernels(), residual, product(x, scale, weight, bias), apart);
    const Tensor out = make({rows, 96});
    launch_linear_add(stream_, kernels(), x, weight, bias, residual, out, scale);
    expect_same_bits(out, apart);
  }
}

TEST_P(Int8Linear, activates_with_the_bits_of_two_kernels) {
  for (int64_t rows : {1, 6, 35}) {
    for (int64_t columns : {16, 144}) {
      const Tensor x = random_codes({rows, 64});
      const Tensor scale = random_scales(rows);
      const Tensor weight = random_weight(2 * columns, 64);
      const Tensor bias = rows == 6 ? Tensor{} : random({2 * columns});
      const Tensor apart = make({rows, columns});
      launch_silu_and_mul(stream_, kernels(), product(x, scale, weight, bias), apart);
      const Tensor out = make({rows, columns});
      launch_linear_silu_and_mul(stream_, kernels(), x, weight, bias, out, scale);
      expect_same_bits(out, apart);
    }
  }
}

TEST_P(Int8Linear, computes_logits_of_the_rows_that_are_there) {
  const Tensor x = random_codes({9, 64});
  const Tensor scale = random_scales(9);
  const Tensor weight = random_weight(96, 64);
  const Tensor all = make({9, 96}, DType::f32);
  launch_linear(stream_, kernels(), x, weight, {}, all, scale);
  for (int rows : {0, 1, 8, 9}) {
    const Tensor logits = make({9, 96}, DType::f32);
    fill_random(logits, 1.0);
    const Tensor untouched = make({9, 96}, DType::f32);
    std::memcpy(untouched.data(), logits.data(), logits.type().bytes());
    launch_lm_head(stream_, kernels(), x, weight, ints({rows}), logits, scale);
    const auto part = [](const Tensor& tensor, int64_t begin, int64_t count) {
      return tensor.with_layout({count, 96}, {96, 1}, begin * 96);
    };
    expect_same_bits(part(logits, 0, rows), part(all, 0, rows));
    expect_same_bits(part(logits, rows, 9 - rows), part(untouched, rows, 9 - rows));
  }
}

TEST_P(Int8Linear, launches_nothing_for_no_rows) {
  EXPECT_FALSE(launch_linear(stream_,
                             kernels(),
                             make({0, 64}, DType::i8),
                             random_weight(32, 64),
                             {},
                             make({0, 32}),
                             make({0}, DType::f32)));
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         Int8Linear,
                         testing::ValuesIn(kernel_cases_of_bytes()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
