#include "reprise/kernels/linear/linear_rope_kv_write.h"

#include "reprise/base/error.h"
#include "reprise/kernels/linear/linear.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

constexpr int64_t kCacheBlocks = 6;
constexpr int64_t kCacheBlockSize = 16;

struct Heads {
  int64_t q = 2;
  int64_t kv = 1;
  int64_t head_dim = 32;

  [[nodiscard]] int64_t columns() const { return (q + 2 * kv) * head_dim; }
};

class LinearRopeKvWrite : public KernelTest {
 protected:
  struct Results {
    Tensor q;
    Tensor key_cache;
    Tensor value_cache;
  };
  Results make_results(int64_t rows, const Heads& heads) {
    const Shape cache = {kCacheBlocks, heads.kv, kCacheBlockSize, heads.head_dim};
    return {make({rows, heads.q, heads.head_dim}), make(cache), make(cache)};
  }

  struct Batch {
    Tensor positions;
    Tensor cos_sin;
    Tensor slots;
    Tensor norm;
  };
  enum class Norms : uint8_t { none, both };
  // Every fifth token has no slot.
  Batch make_batch(int64_t rows, const Heads& heads, Norms norms) {
    std::vector<int> positions;
    std::vector<int> slots;
    for (int i = 0; i < static_cast<int>(rows); ++i) {
      positions.push_back((i * 3) % 50);
      slots.push_back(i % 5 == 4 ? -1 : i + 3);
    }
    return {.positions = ints(positions),
            .cos_sin = random({50, heads.head_dim}, DType::f32, 1.0),
            .slots = ints(slots),
            .norm = norms == Norms::both ? random({heads.head_dim}) : Tensor()};
  }
  static RopeAndCacheCall call_of(const Batch& batch, const Results& results) {
    return {.positions = batch.positions,
            .cos_sin = batch.cos_sin,
            .key_cache = results.key_cache,
            .value_cache = results.value_cache,
            .slot_mapping = batch.slots,
            .q_norm = batch.norm,
            .k_norm = batch.norm,
            .epsilon = 1e-6F,
            .q_out = results.q};
  }

  void expect_equals_two_kernels(
      const Tensor& x, const Tensor& weight, const Tensor& bias, const Heads& heads, Norms norms) {
    const int64_t rows = x.size(0);
    const Batch batch = make_batch(rows, heads, norms);
    const Results fused = make_results(rows, heads);
    launch_linear_rope_kv_write(stream_, kernels(), x, weight, bias, call_of(batch, fused));

    const Tensor product = make({rows, heads.columns()});
    launch_linear(stream_, kernels(), x, weight, bias, product);
    const auto part = [&](int64_t first_head, int64_t count) {
      return product.with_layout({rows, count, heads.head_dim},
                                 {heads.columns(), heads.head_dim, 1},
                                 first_head * heads.head_dim);
    };
    const Results apart = make_results(rows, heads);
    launch_rope_kv_write(stream_,
                         kernels(),
                         part(0, heads.q),
                         part(heads.q, heads.kv),
                         part(heads.q + heads.kv, heads.kv),
                         call_of(batch, apart));
    expect_same_bits(fused.q, apart.q);
    expect_same_bits(fused.key_cache, apart.key_cache);
    expect_same_bits(fused.value_cache, apart.value_cache);
  }
};

TEST_P(LinearRopeKvWrite, has_the_bits_of_two_kernels_for_every_head_dim) {
  for (int64_t head_dim : {2, 16, 48, 62, 64, 80, 128, 256}) {
    for (Norms norms : {Norms::none, Norms::both}) {
      SCOPED_TRACE(testing::Message() << head_dim << (norms == Norms::both ? " with norms" : ""));
      const Heads heads = {.q = 2, .kv = 1, .head_dim = head_dim};
      expect_equals_two_kernels(random({3, 33}), random({heads.columns(), 33}), {}, heads, norms);
    }
  }
}

TEST_P(LinearRopeKvWrite, has_the_bits_of_two_kernels_at_edges_of_rows) {
  for (int64_t rows : {1, 2, 4, 5, 17, 63, 64, 65, 80}) {
    SCOPED_TRACE(rows);
    const Heads heads = {.q = 3, .kv = 2, .head_dim = 32};
    expect_equals_two_kernels(random({rows, 40}),
                              random({heads.columns(), 40}),
                              random({heads.columns()}),
                              heads,
                              rows % 2 == 0 ? Norms::none : Norms::both);
  }
}

TEST_P(LinearRopeKvWrite, reads_strided_rows) {
  const Heads heads;
  expect_equals_two_kernels(
      random_strided({5, 65}), random({heads.columns(), 65}), {}, heads, Norms::none);
}

TEST_P(LinearRopeKvWrite, refuses_a_head_dim_it_has_no_room_for) {
  EXPECT_TRUE(supports_linear_rope_kv_write(256, {}));
  EXPECT_FALSE(supports_linear_rope_kv_write(258, {}));
  EXPECT_TRUE(supports_linear_rope_kv_write(64, column_panels_layout()));
  EXPECT_FALSE(supports_linear_rope_kv_write(40, column_panels_layout()));
  EXPECT_FALSE(supports_linear_rope_kv_write(64, layout_of(PanelFormat::int8_rows, 64)));
  const Heads heads = {.head_dim = 258};
  const Batch batch = make_batch(1, heads, Norms::none);
  const Results results = make_results(1, heads);
  EXPECT_THROW(launch_linear_rope_kv_write(stream_,
                                           kernels(),
                                           random({1, 8}),
                                           random({heads.columns(), 8}),
                                           {},
                                           call_of(batch, results)),
               InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         LinearRopeKvWrite,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
