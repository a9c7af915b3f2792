#include "reprise/kernels/gather_rows/gather_rows.h"

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/rows.h"

namespace reprise::kernels {
namespace {

class GatherRows : public KernelTest {
 protected:
  Tensor run(const Tensor& x, const Tensor& indices) {
    const Tensor out = make({indices.size(0), x.size(1)});
    launch_gather_rows(stream_, kernels(), x, indices, out);
    const Tensor want = make(out.shape());
    gather_rows_ref(x, indices, want);
    expect_same_bits(out, want);
    return out;
  }
};

TEST_P(GatherRows, copies_rows_of_every_width) {
  for (int64_t width : {1, 31, 32, 33, 100, 896, 9000}) {
    SCOPED_TRACE(width);
    run(random({5, width}), ints({4, 0, 0, 3, 1, 2, 4}));
  }
}

TEST_P(GatherRows, reads_strided_rows) { run(random_strided({5, 33}), ints({4, 0, 2})); }

TEST_P(GatherRows, copies_one_row_and_many) {
  run(random({1, 8}), ints({0}));
  std::vector<int> indices;
  for (int i = 0; i < 1000; ++i) indices.push_back(i * 7 % 33);
  run(random({33, 40}), ints(indices));
}

TEST_P(GatherRows, gives_zeros_for_an_index_outside) {
  run(random({3, 40}), ints({0, 3, -1, 1 << 30, 2}));
}

INSTANTIATE_TEST_SUITE_P(AllKernels, GatherRows, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
