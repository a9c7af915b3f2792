#include "reprise/kernels/panel_embedding/panel_embedding.h"

#include "reprise/kernels/gather_rows/gather_rows.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/rows.h"

namespace reprise::kernels {
namespace {

class PanelEmbedding : public KernelTest {};

TEST_P(PanelEmbedding, copies_the_rows_that_the_row_major_table_has) {
  if (dtype() != DType::bf16) GTEST_SKIP() << "panels hold bfloat16";
  for (int64_t width : {2, 6, 64, 898}) {
    SCOPED_TRACE(width);
    const Tensor table = random({48, width});
    const Tensor ids = ints({0, 47, 3, 16, 15, -1, 48, 3, 31});
    const Tensor out = make({9, width});
    launch_panel_embedding(stream_, kernels(), ids, in_panels(table), out);
    const Tensor want = make({9, width});
    gather_rows_ref(table, ids, want);
    expect_same_bits(out, want);
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         PanelEmbedding,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
