#include "reprise/kernels/add/add.h"

#include <cmath>
#include <cstring>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/rows.h"

namespace reprise::kernels {
namespace {

class Add : public KernelTest {
 protected:
  // Each sum is exact before its only rounding, so the test needs no tolerance.
  void expect_exact(const Tensor& a, const Tensor& b) {
    const Tensor out = make(a.shape());
    const Tensor want = make(a.shape());
    launch_add(stream_, kernels(), a, b, out);
    add_ref(a, b, want);
    expect_close(out, want, 0.0, 0.0);
  }
};

TEST_P(Add, is_exact_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 3, 5, 31, 33}) {
    for (int64_t width : {1, 7, 31, 32, 33, 64, 65, 100, 127, 896}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      expect_exact(random({rows, width}), random({rows, width}));
    }
  }
}

TEST_P(Add, cuts_wide_rows) { expect_exact(random({2, 9001}), random({2, 9001})); }

TEST_P(Add, takes_any_rank_and_strides) {
  expect_exact(random({40}), random({40}));
  expect_exact(random_strided({5, 33}), random({5, 33}));
  expect_exact(random_strided({5, 3, 33}), random_strided({5, 3, 33}));
  expect_exact(random({2, 2, 3, 17}), random({2, 2, 3, 17}));
}

TEST_P(Add, rounds_to_nearest_even_whatever_the_bits) {
  const Tensor a = make({64, 1000});
  const Tensor b = make({64, 1000});
  for (const Tensor& tensor : {a, b}) {
    for (size_t i = 0; i < tensor.type().bytes(); i += 2) {
      const auto bits = static_cast<uint16_t>(random_());
      std::memcpy(tensor.data_as<std::byte>() + i, &bits, 2);
    }
  }
  // Half of the pairs have nearly the same magnitude, so that sums are rounding ties or cancel into
  // subnormals.
  for (int64_t i = 0; i < 1000; ++i) {
    for (int64_t row = 0; row < 32; ++row) set_element(b, element(a, row, i) * -0.998, row, i);
  }
  expect_exact(a, b);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, Add, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
