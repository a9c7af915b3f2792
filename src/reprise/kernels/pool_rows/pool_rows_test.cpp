#include "reprise/kernels/pool_rows/pool_rows.h"

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/rows.h"

namespace reprise::kernels {
namespace {

class PoolRows : public KernelTest {
 protected:
  Tensor run(OpFunction function, const Tensor& x, const std::vector<int>& ends, int num_rows) {
    const Tensor out = make({static_cast<int64_t>(ends.size()), x.size(1)}, DType::f32);
    launch_pool_rows(stream_, kernels(), function, x, ints(ends), ints({num_rows}), out);
    return out;
  }
  void expect_agrees(const Tensor& x, const std::vector<int>& ends, int num_rows) {
    for (const OpFunction function : {OpFunction::last, OpFunction::cls, OpFunction::mean}) {
      SCOPED_TRACE(static_cast<int>(function));
      const Tensor want = make_ref({static_cast<int64_t>(ends.size()), x.size(1)});
      pool_rows_ref(function, x, ints(ends), ints({num_rows}), want);
      expect_close(run(function, x, ends, num_rows), want, 1e-6, 1e-6);
    }
  }
};

TEST_P(PoolRows, agrees_with_the_reference_for_requests_of_any_length) {
  for (int64_t width : {1, 31, 32, 33, 384}) {
    SCOPED_TRACE(width);
    expect_agrees(random({60, width}), {0, 1, 8, 40, 59}, 5);
    expect_agrees(random_strided({7, width}), {6}, 1);
  }
  expect_agrees(random({2, 9728}), {0, 1}, 2);
}

TEST_P(PoolRows, gives_zeros_for_padding) {
  const Tensor x = random({5, 40});
  for (const OpFunction function : {OpFunction::last, OpFunction::cls, OpFunction::mean}) {
    const Tensor out = run(function, x, {2, 0, 0}, 1);  // padding has the index 0
    EXPECT_NE(element(out, 0, 3), 0.0);
    for (int64_t row : {1, 2}) EXPECT_EQ(element(out, row, 3), 0.0);
  }
}

TEST_P(PoolRows, gives_a_request_the_same_bits_beside_any_other) {
  const Tensor x = random({30, 50});
  const Tensor all = run(OpFunction::mean, x, {9, 19, 29}, 3);
  const Tensor alone = run(OpFunction::mean, x.with_layout({10, 50}, {50, 1}, 500), {9}, 1);
  expect_same_row(alone, 0, all, 1);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, PoolRows, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
