#include "reprise/kernels/int8_embedding/int8_embedding.h"

#include "reprise/tensor/int8_panels.h"
#include "tests/support/kernels/int8_panels.h"
#include "tests/support/kernels/kernel_test_fixture.h"

namespace reprise::kernels {
namespace {

class Int8Embedding : public KernelTest {};

TEST_P(Int8Embedding, copies_rows_and_writes_zeros_for_ids_outside_of_the_table) {
  const Tensor table = make({64, 128 + kInt8TailBytes}, DType::i8_panels);
  fill_int8_panels(table, random_);
  const std::vector<int> ids = {0, 15, 16, 17, 63, 63, -1, 64};
  const Tensor out = make({8, 128});
  launch_int8_embedding(stream_, kernels(), ints(ids), table, out);
  const Tensor expected = make({8, 128});
  for (int64_t row = 0; row < 8; ++row) {
    for (int64_t i = 0; i < 128; ++i) {
      const int64_t id = ids[static_cast<size_t>(row)];
      const bool is_inside = id >= 0 && id < 64;
      set_element(expected, is_inside ? element(table, id, i) : 0.0, row, i);
    }
  }
  expect_same_bits(out, expected);
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         Int8Embedding,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
