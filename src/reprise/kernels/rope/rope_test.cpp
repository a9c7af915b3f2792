#include "reprise/kernels/rope/rope.h"

#include <cmath>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/rows.h"

namespace reprise::kernels {
namespace {

class Rope : public KernelTest {
 protected:
  Tensor table(int64_t max_position, int64_t head_dim) {
    const Tensor cos_sin = make({max_position, head_dim}, DType::f32);
    for (int64_t position = 0; position < max_position; ++position) {
      for (int64_t i = 0; i < head_dim / 2; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
        const double angle = static_cast<double>(position) * std::pow(10000.0, exponent);
        set_element(cos_sin, std::cos(angle), position, i);
        set_element(cos_sin, std::sin(angle), position, head_dim / 2 + i);
      }
    }
    return cos_sin;
  }

  void expect_agrees(const Tensor& q, const Tensor& k, const std::vector<int>& positions) {
    const Tensor cos_sin = table(1024, q.size(2));
    const Tensor q_out = make(q.shape());
    const Tensor k_out = make(k.shape());
    launch_rope(stream_, kernels(), q, k, ints(positions), cos_sin, q_out, k_out);
    const Tensor q_want = make_ref(q.shape());
    const Tensor k_want = make_ref(k.shape());
    rope_ref(q, k, ints(positions), cos_sin, q_want, k_want);
    expect_close(q_out, q_want, 1.01 * rounding_error(dtype()), 1e-6);
    expect_close(k_out, k_want, 1.01 * rounding_error(dtype()), 1e-6);
  }
};

TEST_P(Rope, agrees_with_the_reference_for_every_head_dim) {
  for (int64_t head_dim : {2, 16, 32, 48, 62, 64, 80, 96, 128}) {
    SCOPED_TRACE(head_dim);
    expect_agrees(random({3, 7, head_dim}), random({3, 1, head_dim}), {0, 1023, 500});
  }
}

TEST_P(Rope, agrees_for_many_tokens_and_strided_views) {
  std::vector<int> positions;
  for (int i = 0; i < 100; ++i) positions.push_back(1000 - 9 * i);
  expect_agrees(random_strided({100, 4, 64}), random_strided({100, 2, 64}), positions);
}

TEST_P(Rope, leaves_position_zero_unchanged) {
  const Tensor q = random({1, 2, 32});
  const Tensor k = random({1, 1, 32});
  const Tensor q_out = make(q.shape());
  const Tensor k_out = make(k.shape());
  launch_rope(stream_, kernels(), q, k, ints({0}), table(4, 32), q_out, k_out);
  expect_same_bits(q_out, q);
  expect_same_bits(k_out, k);
}

TEST_P(Rope, reads_no_table_row_outside) {
  const Tensor q = random({2, 2, 32});
  const Tensor k = random({2, 1, 32});
  const Tensor q_out = make(q.shape());
  launch_rope(stream_, kernels(), q, k, ints({-5, 1 << 30}), table(4, 32), q_out, make(k.shape()));
  EXPECT_FALSE(std::isnan(element(q_out, 1, 1, 31)));
}

INSTANTIATE_TEST_SUITE_P(AllKernels, Rope, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
