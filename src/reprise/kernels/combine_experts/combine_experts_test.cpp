#include "reprise/kernels/combine_experts/combine_experts.h"

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/experts.h"

namespace reprise::kernels {
namespace {

class CombineExperts : public KernelTest {
 protected:
  Tensor run(const Tensor& x, const Tensor& weights) {
    const Tensor out = make({weights.size(0), x.size(1)});
    launch_combine_experts(stream_, kernels(), x, weights, out);
    return out;
  }
  void expect_agrees(const Tensor& x, const Tensor& weights) {
    const Tensor want = make_ref({weights.size(0), x.size(1)});
    combine_experts_ref(x, weights, want);
    expect_close(run(x, weights), want, 1.01 * rounding_error(dtype()) + 1e-6, 3e-6);
  }
};

TEST_P(CombineExperts, agrees_with_the_reference_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 33}) {
    for (int64_t top_k : {1, 2, 8}) {
      for (int64_t width : {1, 31, 32, 33, 100, 896}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << top_k << " x " << width);
        expect_agrees(random({rows * top_k, width}), random({rows, top_k}, DType::f32, 1.0));
      }
    }
  }
}

TEST_P(CombineExperts, cuts_wide_rows_and_reads_strided_ones) {
  expect_agrees(random({2, 9728}), random({1, 2}, DType::f32, 1.0));
  expect_agrees(random_strided({6, 65}), random({3, 2}, DType::f32, 1.0));
}

TEST_P(CombineExperts, gives_a_row_the_same_bits_in_every_batch) {
  const Tensor x = random({80, 100});
  const Tensor weights = random({40, 2}, DType::f32, 1.0);
  const Tensor all = run(x, weights);
  const Tensor out =
      run(x.with_layout({6, 100}, {100, 1}, 2000), weights.with_layout({3, 2}, {2, 1}, 20));
  for (int64_t row = 0; row < 3; ++row) expect_same_row(out, row, all, 10 + row);
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         CombineExperts,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
