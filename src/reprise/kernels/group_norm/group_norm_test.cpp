#include "reprise/kernels/group_norm/group_norm.h"

#include "reprise/kernels/layer_norm/layer_norm.h"
#include "reprise/kernels/rms_norm/rms_norm.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/norms.h"

namespace reprise::kernels {
namespace {

class GroupNorm : public KernelTest {};

TEST_P(GroupNorm, agrees_with_the_reference_at_edges_of_rows_and_groups) {
  for (int64_t rows : {1, 33}) {
    for (int64_t groups : {1, 2, 5}) {
      for (int64_t size : {1, 31, 64, 300}) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << groups << " x " << size);
        const Tensor x = random_strided({rows, groups * size});
        const Tensor weight = random({groups * size});
        const Tensor out = make({rows, groups * size});
        const Tensor want = make_ref({rows, groups * size});
        for (const OpFunction function : {OpFunction::rms_norm, OpFunction::layer_norm}) {
          launch_group_norm(stream_, kernels(), function, x, weight, out, 1e-5F, groups);
          group_norm_ref(function, x, weight, want, 1e-5F, groups);
          const double least = function == OpFunction::rms_norm ? 1e-6 : 2e-6;
          expect_close(out, want, 1.01 * rounding_error(dtype()) + 2e-6, least);
        }
      }
    }
  }
}

TEST_P(GroupNorm, of_one_group_has_the_bits_of_the_norm_of_whole_rows) {
  const Tensor x = random({7, 96});
  const Tensor weight = random({96});
  const Tensor out = make({7, 96});
  const Tensor want = make({7, 96});
  launch_group_norm(stream_, kernels(), OpFunction::rms_norm, x, weight, out, 1e-5F, 1);
  launch_rms_norm(stream_, kernels(), x, weight, 1e-5F, want);
  expect_same_bits(out, want);
  launch_group_norm(stream_, kernels(), OpFunction::layer_norm, x, weight, out, 1e-5F, 1);
  launch_layer_norm(stream_, kernels(), x, weight, {}, 1e-5F, want);
  expect_same_bits(out, want);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, GroupNorm, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
