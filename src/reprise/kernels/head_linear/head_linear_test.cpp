#include "reprise/kernels/head_linear/head_linear.h"

#include <cmath>

#include "tests/support/kernels/kernel_test_fixture.h"

namespace reprise::kernels {
namespace {

class HeadLinear : public KernelTest {
 protected:
  Tensor run(const Tensor& x, const Tensor& weight) {
    const Tensor out = make({x.size(0), x.size(1), weight.size(1)});
    launch_head_linear(stream_, kernels(), x, weight, out);
    return out;
  }
  void expect_agrees(const Tensor& x, const Tensor& weight) {
    const Tensor want = make_ref({x.size(0), x.size(1), weight.size(1)});
    head_linear_ref(x, weight, want);
    expect_close(
        run(x, weight),
        want,
        1.01 * rounding_error(dtype()),
        2e-6 * std::sqrt(static_cast<double>(x.size(2))) + 1.01 * underflow_error(dtype()));
  }
};

TEST_P(HeadLinear, multiplies_each_head_with_its_own_matrix) {
  for (int64_t tokens : {1, 5, 65}) {
    for (int64_t columns : {1, 31, 32, 33, 64}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens, " << columns << " columns");
      expect_agrees(random({tokens, 3, 48}), random({3, columns, 48}));
    }
  }
}

TEST_P(HeadLinear, reads_part_of_a_head) {
  expect_agrees(random_strided({7, 4, 33}), random({4, 40, 33}));
}

TEST_P(HeadLinear, gives_a_row_the_same_bits_in_every_batch) {
  const Tensor x = random({70, 2, 40});
  const Tensor weight = random({2, 36, 40});
  const Tensor all = run(x, weight).with_layout({70, 72}, {72, 1}, 0);
  const Tensor some = run(x.with_layout({3, 2, 40}, {80, 40, 1}, 66 * 80), weight);
  for (int64_t row = 0; row < 3; ++row) {
    expect_same_row(some.with_layout({3, 72}, {72, 1}, 0), row, all, 66 + row);
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels, HeadLinear, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
