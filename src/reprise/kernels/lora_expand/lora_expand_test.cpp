#include "reprise/kernels/lora_expand/lora_expand.h"

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/adapters.h"

namespace reprise::kernels {
namespace {

class LoraExpand : public KernelTest {
 protected:
  static constexpr int64_t kRank = 5;

  Tensor run(const Tensor& y,
             const Tensor& shrunk,
             const Tensor& b,
             const Tensor& ends,
             const Tensor& slots) {
    const Tensor out = make(y.shape());
    launch_lora_expand(stream_, kernels(), y, shrunk, b, ends, slots, out);
    return out;
  }
  // Three modules of different widths, one of them empty.
  Tensor ends_of(int64_t width) {
    const int third = static_cast<int>(width / 3);
    return ints({third, third, static_cast<int>(width)});
  }
  Tensor random_shrunk(int64_t rows) { return random({rows, 3 * kRank}, DType::f32, 1.0); }
  Tensor mixed_slots(int64_t rows) {
    std::vector<int> slots;
    for (int64_t row = 0; row < rows + 5; ++row) slots.push_back(static_cast<int>(row % 4) - 1);
    return ints(slots);
  }
};

TEST_P(LoraExpand, agrees_with_the_reference_for_mixed_adapters_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 33}) {
    for (int64_t width : {1, 2, 31, 32, 33, 100, 5000}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      const Tensor b = random({3, kRank, width});
      const Tensor shrunk = random_shrunk(rows);
      for (const Tensor& y : {random({rows, width}), random_strided({rows, width})}) {
        const Tensor want = make_ref({rows, width});
        lora_expand_ref(y, shrunk, b, ends_of(width), mixed_slots(rows), want);
        expect_close(run(y, shrunk, b, ends_of(width), mixed_slots(rows)),
                     want,
                     1.01 * rounding_error(dtype()),
                     1e-5);
      }
    }
  }
}

TEST_P(LoraExpand, changes_no_bit_of_a_row_without_an_adapter) {
  const Tensor y = random({8, 70});
  const Tensor b = random({3, kRank, 70});
  const Tensor out = run(y, random_shrunk(8), b, ends_of(70), mixed_slots(8));
  expect_same_row(out, 0, y, 0);
  expect_same_row(out, 4, y, 4);
}

TEST_P(LoraExpand, gives_a_row_the_same_bits_in_every_batch) {
  const Tensor y = random({40, 100});
  const Tensor b = random({3, kRank, 100});
  const Tensor shrunk = random_shrunk(40);
  const Tensor mixed = run(y, shrunk, b, ends_of(100), mixed_slots(40));
  const Tensor alone = run(y.with_layout({1, 100}, {100, 1}, 700),
                           shrunk.with_layout({1, 3 * kRank}, {3 * kRank, 1}, 7 * 3 * kRank),
                           b,
                           ends_of(100),
                           ints({2}));
  expect_same_row(alone, 0, mixed, 7);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, LoraExpand, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
