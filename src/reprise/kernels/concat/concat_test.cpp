#include "reprise/kernels/concat/concat.h"

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/rows.h"

namespace reprise::kernels {
namespace {

class Concat : public KernelTest {
 protected:
  void expect_agrees(const Tensor& a, const Tensor& b) {
    const Shape shape = {a.size(0), a.size(1), a.size(2) + b.size(2)};
    const Tensor out = make(shape);
    launch_concat(stream_, kernels(), a, b, out);
    const Tensor want = make(shape);
    concat_ref(a, b, want);
    expect_same_bits(out, want);
  }
};

TEST_P(Concat, puts_rows_side_by_side) {
  for (int64_t tokens : {1, 3, 40}) {
    for (int64_t width : {1, 31, 64, 512}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens of " << width);
      expect_agrees(random({tokens, 3, width}), random({tokens, 3, 8}));
    }
  }
}

TEST_P(Concat, reads_strided_rows) {
  expect_agrees(random_strided({4, 2, 33}), random_strided({4, 2, 16}));
}

INSTANTIATE_TEST_SUITE_P(AllKernels, Concat, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
