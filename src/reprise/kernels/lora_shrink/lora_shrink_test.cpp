#include "reprise/kernels/lora_shrink/lora_shrink.h"

#include <cmath>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/adapters.h"

namespace reprise::kernels {
namespace {

class LoraShrink : public KernelTest {
 protected:
  Tensor run(const Tensor& x, const Tensor& a, const Tensor& slots) {
    const Tensor out = make({x.size(0), a.size(1)}, DType::f32);
    launch_lora_shrink(stream_, kernels(), x, a, slots, out);
    return out;
  }
  void expect_agrees(const Tensor& x, const Tensor& a, const Tensor& slots) {
    const Tensor want = make_ref({x.size(0), a.size(1)});
    lora_shrink_ref(x, a, slots, want);
    const double depth = static_cast<double>(x.size(1));
    expect_close(run(x, a, slots), want, 2e-6, 2e-6 * std::sqrt(depth));
  }
  // Slots of `rows` rows: none, 0, 1, 2, none, ... in runs of three; then some unused entries.
  Tensor mixed_slots(int64_t rows) {
    std::vector<int> slots;
    for (int64_t row = 0; row < rows + 5; ++row) {
      slots.push_back(static_cast<int>(row / 3 % 4) - 1);
    }
    return ints(slots);
  }
};

TEST_P(LoraShrink, agrees_with_the_reference_for_mixed_adapters_at_edges_of_rows_and_columns) {
  for (int64_t rows : {1, 2, 31, 32, 33, 70}) {
    for (int64_t columns : {1, 8, 15, 16, 17, 48}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns);
      const Tensor a = random({3, columns, 65});
      expect_agrees(random({rows, 65}), a, mixed_slots(rows));
      expect_agrees(random_strided({rows, 65}), a, mixed_slots(rows));
    }
  }
}

TEST_P(LoraShrink, gives_a_row_the_same_bits_whatever_adapters_its_neighbours_have) {
  const Tensor x = random({40, 100});
  const Tensor a = random({3, 24, 100});
  const Tensor mixed = run(x, a, mixed_slots(40));
  const Tensor alone = run(x, a, ints(std::vector<int>(40, 1)));
  for (int64_t row = 6; row < 9; ++row) expect_same_row(mixed, row, alone, row);
}

TEST_P(LoraShrink, launches_nothing_without_tokens) {
  const Tensor out = make({0, 8}, DType::f32);
  EXPECT_FALSE(
      launch_lora_shrink(stream_, kernels(), make({0, 4}), random({2, 8, 4}), ints({0}), out));
}

INSTANTIATE_TEST_SUITE_P(AllKernels, LoraShrink, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
