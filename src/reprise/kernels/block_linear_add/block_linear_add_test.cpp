#include "reprise/kernels/block_linear_add/block_linear_add.h"

#include <vector>

#include "reprise/kernels/add/add.h"
#include "reprise/kernels/block_linear/block_linear.h"
#include "reprise/kernels/quantize_blocks/quantize_blocks.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/packed_weights.h"

namespace reprise::kernels {
namespace {

class BlockLinearAdd : public KernelTest {};

TEST_P(BlockLinearAdd, has_the_bits_of_two_kernels) {
  for (int64_t rows : {1, 2, 7, 40, 265}) {
    for (int64_t columns : {16, 50, 96}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " columns");
      const Tensor x = random({rows, 64});
      const Tensor q = make({rows, 80}, DType::i8);
      launch_quantize_blocks(stream_, kernels(), x, q);
      const std::vector<PanelPart> parts = {{.format = PanelFormat::q4_0, .columns = columns}};
      const Tensor weight = make(packed_weight_type(parts, 64).shape, DType::i8);
      fill_packed_weight(weight, parts, 64, random_);
      const Tensor bias = columns == 50 ? Tensor{} : random({columns});
      const Tensor residual = random_strided({rows, columns});
      const Tensor product = make({rows, columns});
      const Tensor apart = make({rows, columns});
      launch_block_linear(stream_, kernels(), q, weight, bias, product);
      launch_add(stream_, kernels(), residual, product, apart);
      const Tensor out = make({rows, columns});
      launch_block_linear_add(stream_, kernels(), q, weight, bias, residual, out);
      expect_same_bits(out, apart);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         BlockLinearAdd,
                         testing::ValuesIn(kernel_cases_of_bytes()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
