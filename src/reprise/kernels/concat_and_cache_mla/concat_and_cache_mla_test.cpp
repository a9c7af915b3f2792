#include "reprise/kernels/concat_and_cache_mla/concat_and_cache_mla.h"

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/caches.h"

namespace reprise::kernels {
namespace {

class ConcatAndCacheMla : public KernelTest {
 protected:
  // Every byte of the cache begins as 0xFF, so it holds NaNs; rows that no token writes must keep
  // them.
  void expect_agrees(const Tensor& kv_c,
                     const Tensor& k_pe,
                     int64_t block_size,
                     const std::vector<int>& slots) {
    const Shape shape = {5, 1, block_size, kv_c.size(1) + k_pe.size(2)};
    const Tensor cache = make(shape);
    launch_concat_and_cache_mla(stream_, kernels(), kv_c, k_pe, cache, ints(slots));
    const Tensor want = make(shape);
    concat_and_cache_mla_ref(kv_c, k_pe, want, ints(slots));
    expect_same_bits(cache, want);
  }
};

TEST_P(ConcatAndCacheMla, writes_tokens_to_their_slots) {
  for (int64_t latent : {1, 33, 512}) {
    SCOPED_TRACE(latent);
    expect_agrees(random({4, latent}), random({4, 1, 16}), 16, {79, 0, 16, 33});
  }
}

TEST_P(ConcatAndCacheMla, reads_strided_rows_and_takes_any_block_size) {
  for (int64_t block_size : {1, 7, 32}) {
    expect_agrees(random_strided({3, 20}), random_strided({3, 1, 6}), block_size, {4, 0, 2});
  }
}

TEST_P(ConcatAndCacheMla, writes_many_tokens) {
  std::vector<int> slots;
  for (int i = 0; i < 150; ++i) slots.push_back((i * 7) % 160);
  expect_agrees(random({150, 64}), random({150, 1, 8}), 32, slots);
}

TEST_P(ConcatAndCacheMla, skips_negative_slots_and_slots_beyond_the_cache) {
  expect_agrees(random({5, 16}), random({5, 1, 4}), 16, {-1, 5, 80, -7, 1 << 30});
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         ConcatAndCacheMla,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
