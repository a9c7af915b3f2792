#include "reprise/kernels/lm_head/lm_head.h"

#include <cmath>

#include "reprise/kernels/linear/linear.h"
#include "tests/support/kernels/kernel_test_fixture.h"

namespace reprise::kernels {
namespace {

class LmHead : public KernelTest {};

TEST_P(LmHead, agrees_with_the_reference_in_float32) {
  for (int64_t rows : {1, 2, 3, 5, 65}) {
    for (int64_t hidden : {1, 33, 896}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << hidden << " wide");
      const Tensor x = random_strided({rows, hidden});
      const Tensor weight = random({37, hidden});
      const Tensor num_rows = ints({static_cast<int>(rows)});
      const Tensor out = make_ref({rows, 37});
      const Tensor want = make_ref({rows, 37});
      launch_lm_head(stream_, kernels(), x, weight, num_rows, out);
      lm_head_ref(x, weight, num_rows, want);
      expect_close(out, want, 1e-6, 2e-6 * std::sqrt(static_cast<double>(hidden)));
    }
  }
}

TEST_P(LmHead, reads_the_number_of_rows_when_it_runs_and_leaves_the_others_alone) {
  const Tensor x = random({70, 40});
  const Tensor weight = random({19, 40});
  const Tensor all = make_ref({70, 19});
  launch_lm_head(stream_, kernels(), x, weight, ints({70}), all);
  for (int count : {0, 1, 3, 4, 5, 63, 64, 65, 70, 71, -1}) {
    const Tensor out = make_ref({70, 19});  // NaNs
    launch_lm_head(stream_, kernels(), x, weight, ints({count}), out);
    for (int64_t row = 0; row < 70; ++row) {
      if (row < count) {
        expect_same_row(out, row, all, row);
      } else {
        EXPECT_TRUE(std::isnan(element(out, row, 18))) << count << " rows touch row " << row;
      }
    }
  }
}

TEST_P(LmHead, sums_as_linear_does) {
  const Tensor x = random({3, 100}, DType::f32, 1.0);
  const Tensor weight = random({21, 100}, DType::f32, 1.0);
  const Tensor logits = make_ref({3, 21});
  const Tensor product = make_ref({3, 21});
  launch_lm_head(stream_, kernels(), x, weight, ints({3}), logits);
  launch_linear(stream_, kernels(), x, weight, {}, product);
  expect_same_bits(logits, product);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, LmHead, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
