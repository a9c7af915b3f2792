#include "reprise/kernels/rope_kv_write/rope_kv_write.h"

#include "reprise/kernels/kv_write/kv_write.h"
#include "reprise/kernels/rms_norm/rms_norm.h"
#include "reprise/kernels/rope/rope.h"
#include "tests/support/kernels/kernel_test_fixture.h"

namespace reprise::kernels {
namespace {

constexpr float kNormEpsilon = 1e-6F;
constexpr int64_t kBlocks = 5;
constexpr int64_t kBlockSize = 16;
constexpr int64_t kMaxPosition = 50;

class RopeKvWrite : public KernelTest {
 protected:
  // All bytes of the caches begin as 0xFF, so they hold NaNs; rows that no kernel writes must keep
  // them.
  struct Results {
    Tensor q;
    Tensor key_cache;
    Tensor value_cache;
  };
  Results make_results(const Tensor& q, const Tensor& k) {
    const Shape cache = {kBlocks, k.size(1), kBlockSize, k.size(2)};
    return {make(q.shape()), make(cache), make(cache)};
  }

  struct Batch {
    Tensor positions;
    Tensor cos_sin;
    Tensor slots;
    Tensor q_norm;
    Tensor k_norm;
  };
  enum class Norms : uint8_t { none, both };
  Batch make_batch(int64_t head_dim,
                   Norms norms,
                   const std::vector<int>& positions,
                   const std::vector<int>& slots) {
    return {.positions = ints(positions),
            .cos_sin = random({kMaxPosition, head_dim}, DType::f32, 1.0),
            .slots = ints(slots),
            .q_norm = norms == Norms::both ? random({head_dim}) : Tensor(),
            .k_norm = norms == Norms::both ? random({head_dim}) : Tensor()};
  }

  void run(const Tensor& q,
           const Tensor& k,
           const Tensor& v,
           const Batch& batch,
           const Results& results) {
    launch_rope_kv_write(stream_,
                         kernels(),
                         q,
                         k,
                         v,
                         {.positions = batch.positions,
                          .cos_sin = batch.cos_sin,
                          .key_cache = results.key_cache,
                          .value_cache = results.value_cache,
                          .slot_mapping = batch.slots,
                          .q_norm = batch.q_norm,
                          .k_norm = batch.k_norm,
                          .epsilon = kNormEpsilon,
                          .q_out = results.q});
  }

  Tensor normed(const Tensor& x, const Tensor& weight) {
    if (!weight.defined()) return x;
    const Tensor out = make(x.shape());
    launch_rms_norm(stream_, kernels(), x, weight, kNormEpsilon, out);
    return out;
  }
  Results run_apart(const Tensor& q, const Tensor& k, const Tensor& v, const Batch& batch) {
    const Results results = make_results(q, k);
    const Tensor k_out = make(k.shape());
    launch_rope(stream_,
                kernels(),
                normed(q, batch.q_norm),
                normed(k, batch.k_norm),
                batch.positions,
                batch.cos_sin,
                results.q,
                k_out);
    launch_kv_write(
        stream_, kernels(), k_out, v, results.key_cache, results.value_cache, batch.slots);
    return results;
  }

  void expect_same(const Results& got, const Results& want) {
    expect_same_bits(got.q, want.q);
    expect_same_bits(got.key_cache, want.key_cache);
    expect_same_bits(got.value_cache, want.value_cache);
  }
  void expect_equals_kernels_apart(const Tensor& q,
                                   const Tensor& k,
                                   const Tensor& v,
                                   const Batch& batch) {
    const Results fused = make_results(q, k);
    run(q, k, v, batch, fused);
    expect_same(fused, run_apart(q, k, v, batch));
  }
};

TEST_P(RopeKvWrite, has_the_bits_of_kernels_apart_for_every_head_dim) {
  for (int64_t head_dim : {2, 16, 48, 62, 64, 80, 128, 320}) {
    for (Norms norms : {Norms::none, Norms::both}) {
      SCOPED_TRACE(testing::Message() << head_dim << (norms == Norms::both ? " with norms" : ""));
      expect_equals_kernels_apart(random({4, 3, head_dim}),
                                  random({4, 1, head_dim}),
                                  random({4, 1, head_dim}),
                                  make_batch(head_dim, norms, {0, 49, 20, 7}, {79, 0, 16, 33}));
    }
  }
}

TEST_P(RopeKvWrite, has_the_bits_of_kernels_apart_for_many_strided_tokens) {
  std::vector<int> positions;
  std::vector<int> slots;
  for (int i = 0; i < 70; ++i) {
    positions.push_back(i % 50);
    slots.push_back((i * 7) % 80);
  }
  for (Norms norms : {Norms::none, Norms::both}) {
    expect_equals_kernels_apart(random_strided({70, 4, 32}),
                                random_strided({70, 2, 32}),
                                random_strided({70, 2, 32}),
                                make_batch(32, norms, positions, slots));
  }
}

TEST_P(RopeKvWrite, writes_nothing_to_slots_outside_and_clamps_positions) {
  for (Norms norms : {Norms::none, Norms::both}) {
    const Tensor q = random({4, 2, 16});
    const Tensor k = random({4, 2, 16});
    expect_equals_kernels_apart(
        q, k, k, make_batch(16, norms, {-3, 1 << 30, 5, 49}, {-1, 80, 1 << 30, 5}));
  }
}

TEST_P(RopeKvWrite, writes_over_its_query) {
  for (Norms norms : {Norms::none, Norms::both}) {
    const Tensor q = random({3, 4, 48});
    const Tensor k = random({3, 1, 48});
    const Tensor v = random({3, 1, 48});
    const Batch batch = make_batch(48, norms, {3, 4, 5}, {0, 1, 2});
    const Results apart = run_apart(q, k, v, batch);
    Results in_place = make_results(q, k);
    in_place.q = q;
    run(q, k, v, batch, in_place);
    expect_same(in_place, apart);
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels, RopeKvWrite, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
