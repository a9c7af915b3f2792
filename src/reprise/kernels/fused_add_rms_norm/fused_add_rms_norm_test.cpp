#include "reprise/kernels/fused_add_rms_norm/fused_add_rms_norm.h"

#include <cstring>

#include "reprise/kernels/add/add.h"
#include "reprise/kernels/rms_norm/rms_norm.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/norms.h"

namespace reprise::kernels {
namespace {

constexpr float kEpsilon = 1e-6F;

class FusedAddRmsNorm : public KernelTest {
 protected:
  struct Results {
    Tensor normed;
    Tensor sum;
  };
  Results run(const Tensor& x, const Tensor& residual, const Tensor& weight) {
    const Results results = {make(x.shape()), make(x.shape())};
    launch_fused_add_rms_norm(
        stream_, kernels(), x, residual, weight, kEpsilon, results.normed, results.sum);
    return results;
  }
  Results run_apart(const Tensor& x, const Tensor& residual, const Tensor& weight) {
    const Results results = {make(x.shape()), make(x.shape())};
    launch_add(stream_, kernels(), residual, x, results.sum);
    launch_rms_norm(stream_, kernels(), results.sum, weight, kEpsilon, results.normed);
    return results;
  }
  void expect_equals_two_kernels(const Tensor& x, const Tensor& residual) {
    const Tensor weight = random({x.size(-1)});
    const Results fused = run(x, residual, weight);
    const Results apart = run_apart(x, residual, weight);
    expect_same_bits(fused.normed, apart.normed);
    expect_same_bits(fused.sum, apart.sum);
  }
};

TEST_P(FusedAddRmsNorm, has_the_bits_of_two_kernels_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 3, 5, 31, 32, 33}) {
    for (int64_t width : {1, 7, 31, 32, 33, 63, 64, 65, 100, 127, 896, 5000}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      if (rows * width < 50'000)
        expect_equals_two_kernels(random({rows, width}), random({rows, width}));
    }
  }
}

TEST_P(FusedAddRmsNorm, reads_strided_rows_and_heads) {
  expect_equals_two_kernels(random_strided({5, 65}), random({5, 65}));
  expect_equals_two_kernels(random({5, 65}), random_strided({5, 65}));
  expect_equals_two_kernels(random_strided({9, 7, 80}), random_strided({9, 7, 80}));
}

// The bits of a NaN depend on the order of operands that the compiler chooses.
TEST_P(FusedAddRmsNorm, equals_two_kernels_for_infinities_nans_and_subnormals) {
  const Tensor x = make({64, 100});
  const Tensor residual = make({64, 100});
  for (const Tensor& tensor : {x, residual}) {
    for (size_t i = 0; i < tensor.type().bytes(); i += 2) {
      const auto bits = static_cast<uint16_t>(random_());
      std::memcpy(tensor.data_as<std::byte>() + i, &bits, 2);
    }
  }
  const Tensor weight = random({100});
  const Results fused = run(x, residual, weight);
  const Results apart = run_apart(x, residual, weight);
  expect_close(fused.normed, apart.normed, 0.0, 0.0);
  expect_close(fused.sum, apart.sum, 0.0, 0.0);
}

TEST_P(FusedAddRmsNorm, agrees_with_the_reference) {
  const Tensor x = random({33, 100});
  const Tensor residual = random({33, 100});
  const Tensor weight = random({100});
  const Results got = run(x, residual, weight);
  const Tensor sum = make(x.shape());  // rounded, as the norm reads it
  const Tensor normed = make_ref(x.shape());
  fused_add_rms_norm_ref(x, residual, weight, kEpsilon, normed, sum);
  expect_close(got.sum, sum, 0.0, 0.0);
  expect_close(
      got.normed, normed, 1.01 * rounding_error(dtype()) + 5e-7, 1.01 * underflow_error(dtype()));
}

TEST_P(FusedAddRmsNorm, gives_a_row_the_same_bits_in_every_batch) {
  const Tensor x = random({100, 100});
  const Tensor residual = random({100, 100});
  const Tensor weight = random({100});
  const Results all = run(x, residual, weight);
  for (int64_t rows : {1, 2, 33}) {
    const Results some = run(x.with_layout({rows, 100}, {100, 1}, 1700),
                             residual.with_layout({rows, 100}, {100, 1}, 1700),
                             weight);
    for (int64_t row = 0; row < rows; ++row) {
      expect_same_row(some.normed, row, all.normed, 17 + row);
      expect_same_row(some.sum, row, all.sum, 17 + row);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         FusedAddRmsNorm,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
