#include "reprise/kernels/kv_write/kv_write.h"

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/caches.h"

namespace reprise::kernels {
namespace {

class KvWrite : public KernelTest {
 protected:
  // All bytes of the caches begin as 0xFF, so they hold NaNs; rows that no kernel writes must keep
  // them.
  void expect_agrees(const Tensor& k,
                     const Tensor& v,
                     int64_t block_size,
                     const std::vector<int>& slots) {
    const Shape shape = {5, k.size(1), block_size, k.size(2)};
    const Tensor keys = make(shape);
    const Tensor values = make(shape);
    launch_kv_write(stream_, kernels(), k, v, keys, values, ints(slots));
    const Tensor keys_want = make(shape);
    const Tensor values_want = make(shape);
    kv_write_ref(k, v, keys_want, values_want, ints(slots));
    expect_same_bits(keys, keys_want);
    expect_same_bits(values, values_want);
  }
};

TEST_P(KvWrite, scatters_tokens_into_their_slots) {
  for (int64_t head_dim : {16, 33, 64, 80, 128}) {
    for (int64_t kv_heads : {1, 2, 8}) {
      SCOPED_TRACE(testing::Message() << kv_heads << " heads of " << head_dim);
      expect_agrees(
          random({4, kv_heads, head_dim}), random({4, kv_heads, head_dim}), 16, {79, 0, 16, 33});
    }
  }
}

TEST_P(KvWrite, reads_strided_keys_and_values) {
  expect_agrees(random_strided({4, 2, 32}), random_strided({4, 2, 32}), 16, {3, 70, 15, 31});
}

TEST_P(KvWrite, takes_any_block_size) {
  for (int64_t block_size : {1, 2, 7, 32}) {
    expect_agrees(random({3, 2, 8}), random({3, 2, 8}), block_size, {0, 4, 2});
  }
}

TEST_P(KvWrite, writes_many_tokens) {
  std::vector<int> slots;
  for (int i = 0; i < 150; ++i) slots.push_back((i * 7) % 160);
  expect_agrees(random({150, 2, 64}), random({150, 2, 64}), 32, slots);
}

TEST_P(KvWrite, skips_negative_slots_and_slots_beyond_the_cache) {
  expect_agrees(random({5, 2, 16}), random({5, 2, 16}), 16, {-1, 5, 80, -7, 1 << 30});
}

INSTANTIATE_TEST_SUITE_P(AllKernels, KvWrite, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
