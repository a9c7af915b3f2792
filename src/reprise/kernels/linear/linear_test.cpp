#include "reprise/kernels/linear/linear.h"

#include <cmath>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

class Linear : public KernelTest {
 protected:
  // Sums of k products of magnitude `deviation`: the tolerance allows for the rounding of float32,
  // then of the result.
  void expect_product(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor out = make({x.size(0), weight.size(0)});
    const Tensor want = make_ref({x.size(0), weight.size(0)});
    launch_linear(stream_, kernels(), x, weight, bias, out);
    linear_ref(x, weight, bias, want);
    const double terms = std::sqrt(static_cast<double>(x.size(1)));
    expect_close(out, want, 1.01 * rounding_error(dtype()), 2e-6 * terms);
  }
};

TEST_P(Linear, agrees_with_the_reference_at_edges_of_rows_and_depth) {
  for (int64_t rows : {1, 2, 3, 5, 31, 33}) {
    for (int64_t depth : {1, 31, 32, 33, 63, 64, 65, 100, 127}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, depth " << depth);
      expect_product(random({rows, depth}), random({7, depth}), {});
    }
  }
}

TEST_P(Linear, agrees_with_the_reference_at_edges_of_columns) {
  for (int64_t rows : {1, 2, 3, 4, 17, 64, 65}) {
    for (int64_t columns : {1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " columns");
      expect_product(random({rows, 40}), random({columns, 40}), {});
    }
  }
}

TEST_P(Linear, agrees_with_the_reference_on_a_real_layer) {
  expect_product(random({3, 896}), random({65, 896}), {});
}

TEST_P(Linear, adds_the_bias) {
  for (int64_t rows : {1, 5}) expect_product(random({rows, 33}), random({37, 33}), random({37}));
}

TEST_P(Linear, reads_strided_rows) { expect_product(random_strided({5, 65}), random({9, 65}), {}); }

TEST_P(Linear, gives_a_row_the_same_bits_in_every_batch) {
  const Tensor x = random({70, 127});
  const Tensor weight = random({37, 127});
  const Tensor bias = random({37});
  const Tensor all = make({70, 37});
  launch_linear(stream_, kernels(), x, weight, bias, all);
  for (int64_t rows : {1, 2, 3, 4, 5, 7, 16, 17, 33, 64}) {
    for (int64_t first : {0, 3, 70 - static_cast<int>(rows)}) {
      if (first + rows > 70) continue;
      const Tensor out = make({rows, 37});
      launch_linear(
          stream_, kernels(), x.with_layout({rows, 127}, {127, 1}, first * 127), weight, bias, out);
      for (int64_t row = 0; row < rows; ++row) expect_same_row(out, row, all, first + row);
    }
  }
}

TEST_P(Linear, keeps_a_nan_in_its_own_row) {
  const Tensor x = random({6, 40});
  const Tensor weight = random({9, 40});
  const Tensor clean = make({6, 9});
  launch_linear(stream_, kernels(), x, weight, {}, clean);
  set_element(x, NAN, 4, 39);
  const Tensor out = make({6, 9});
  launch_linear(stream_, kernels(), x, weight, {}, out);
  for (int64_t row : {0, 1, 2, 3, 5}) expect_same_row(out, row, clean, row);
  for (int64_t column = 0; column < 9; ++column) EXPECT_TRUE(std::isnan(element(out, 4, column)));
}

TEST_P(Linear, launches_nothing_for_no_rows) {
  EXPECT_FALSE(launch_linear(stream_, kernels(), make({0, 8}), random({4, 8}), {}, make({0, 4})));
  EXPECT_EQ(stream_.num_launches(), 0U);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, Linear, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
