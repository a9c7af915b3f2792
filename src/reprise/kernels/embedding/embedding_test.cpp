#include "reprise/kernels/embedding/embedding.h"

#include <vector>

#include "tests/support/kernels/int8_panels.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/rows.h"
#include "tests/support/kernels/packed_weights.h"

namespace reprise::kernels {
namespace {

class Embedding : public KernelTest {
 protected:
  Tensor look_up(const std::vector<int>& ids, const Tensor& table) {
    const Tensor out = make({static_cast<int64_t>(ids.size()), table.size(1)});
    launch_embedding(stream_, kernels(), ints(ids), table, out);
    return out;
  }
};

TEST_P(Embedding, copies_the_rows_that_the_row_major_table_has) {
  if (dtype() != DType::bf16) GTEST_SKIP() << "panels hold bfloat16";
  const std::vector<int> ids = {0, 47, 3, 16, 15, -1, 48, 3, 31};
  for (int64_t width : {2, 6, 64, 898}) {
    SCOPED_TRACE(width);
    const Tensor table = random({48, width});
    const Tensor want = make({9, width});
    gather_rows_ref(table, ints(ids), want);
    expect_same_bits(look_up(ids, in_panels(table)), want);
    expect_same_bits(look_up(ids, table), want);
  }
}

TEST_P(Embedding, copies_rows_of_int8_and_writes_zeros_for_ids_outside_of_the_table) {
  const Tensor table = make(int8_panels_type(64, 128, dtype()));
  fill_int8_panels(table, random_);
  const std::vector<int> ids = {0, 15, 16, 17, 63, 63, -1, 64};
  const Tensor want = make({8, 128});
  gather_rows_ref(table, ints(ids), want);
  expect_same_bits(look_up(ids, table), want);
}

TEST_P(Embedding, looks_up_the_elements_of_every_codec_of_blocks) {
  const std::vector<int> ids = {0, 17, 3, 18, 22, 3, -1, 23, 16};
  for (const PanelFormat format : all_panel_formats()) {
    SCOPED_TRACE(codec_name(format));
    const std::vector<PanelPart> parts = {{.format = format, .columns = 18},
                                          {.format = PanelFormat::q8_0, .columns = 5}};
    const Tensor table = make(packed_weight_type(parts, 256, dtype()));
    fill_packed_weight(table, parts, random_);
    const Tensor want = make_ref({9, 256});
    gather_rows_ref(table, ints(ids), want);
    expect_close(look_up(ids, table), want, 1.01 * rounding_error(dtype()), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels, Embedding, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
