#include "reprise/kernels/block_lm_head/block_lm_head.h"

#include <cmath>
#include <vector>

#include "reprise/kernels/block_linear/block_linear.h"
#include "reprise/kernels/quantize_blocks/quantize_blocks.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/packed_weights.h"

namespace reprise::kernels {
namespace {

class BlockLmHead : public KernelTest {};

TEST_P(BlockLmHead, computes_the_rows_that_the_device_counts_and_leaves_the_others_alone) {
  const Tensor x = random({70, 64});
  const Tensor q = make({70, 80}, DType::i8);
  launch_quantize_blocks(stream_, kernels(), x, q);
  const std::vector<PanelPart> parts = {{.format = PanelFormat::q4_0, .columns = 32}};
  const Tensor weight = make(packed_weight_type(parts, 64).shape, DType::i8);
  fill_packed_weight(weight, parts, 64, random_);
  const Tensor all = make_ref({70, 32});
  launch_block_linear(stream_, kernels(), q, weight, {}, all);
  for (int count : {0, 1, 3, 63, 64, 65, 70, 71, -1}) {
    const Tensor out = make_ref({70, 32});  // NaNs
    launch_block_lm_head(stream_, kernels(), q, weight, ints({count}), out);
    for (int64_t row = 0; row < 70; ++row) {
      if (row < count) {
        expect_same_row(out, row, all, row);
      } else {
        EXPECT_TRUE(std::isnan(element(out, row, 31))) << count << " rows touch row " << row;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         BlockLmHead,
                         testing::ValuesIn(kernel_cases_of_bytes()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
