#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/kernels/kv_write/kv_write.h"
#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/linear/linear_rope_kv_write.h"
#include "reprise/kernels/rms_norm/rms_norm.h"
#include "reprise/kernels/rope/rope.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write.h"
#include "tests/support/kernels/attention_fixture.h"
#include "tests/support/kernels/attention_plan_fixture.h"
#include "tests/support/kernels/oracles/caches.h"

// Caches of eight bits: the writes, and the attention that reads them.
namespace reprise::kernels {
namespace {

struct CacheKind {
  DType dtype;
  bool has_row_scales;
  // The largest error of an element, relative to the element (float8 of normal size) and relative
  // to the largest element of its row (int8).
  double relative;
  double of_largest;
};
constexpr std::array kCacheKinds = {CacheKind{DType::f8e4m3, false, 0x1p-4, 0},
                                    CacheKind{DType::f8e5m2, false, 0x1p-3, 0},
                                    CacheKind{DType::f8e4m3, true, 0x1p-4, 0},
                                    CacheKind{DType::i8, true, 0, 0.5 / 127}};

class QuantizedCache : public AttentionTest {
 protected:
  struct Caches {
    Tensor keys;
    Tensor values;
  };
  // All bytes of the caches begin as 0xFF; rows that no kernel writes must keep them.
  Caches make_caches(const CacheKind& kind,
                     int64_t kv_heads,
                     int64_t head_dim,
                     int64_t blocks = 5) {
    const Shape shape = {blocks, kv_heads, 16, head_dim + (kind.has_row_scales ? 4 : 0)};
    return {make(shape, kind.dtype), make(shape, kind.dtype)};
  }
  static void expect_same_bytes(const Tensor& a, const Tensor& b) {
    ASSERT_EQ(a.type(), b.type());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.type().bytes()), 0) << a.type().to_string();
  }
  static void expect_same(const Caches& a, const Caches& b) {
    expect_same_bytes(a.keys, b.keys);
    expect_same_bytes(a.values, b.values);
  }

  // Returns the batch with its caches converted to another kind.
  Batch quantized(const Batch& batch, const CacheKind& kind, const CacheScales& scales) {
    const Shape& shape = batch.key_cache.shape();
    Batch result = batch;
    const Shape rows = {shape[0], shape[1], shape[2], shape[3] + (kind.has_row_scales ? 4 : 0)};
    result.key_cache = make(rows, kind.dtype);
    result.value_cache = make(rows, kind.dtype);
    const int64_t num_reqs = batch.seq_lens.size(0);
    for (int64_t r = 0; r < num_reqs; ++r) {
      for (int64_t p = 0; p < int_element(batch.seq_lens, r); ++p) {
        const int64_t block = int_element(batch.block_table, r, p / shape[2]);
        const auto from = [&](const Tensor& cache) {
          return cache.with_layout({1, shape[1], shape[3]},
                                   {1, shape[2] * shape[3], 1},
                                   (block * shape[1] * shape[2] + p % shape[2]) * shape[3]);
        };
        kv_write_ref(from(batch.key_cache),
                     from(batch.value_cache),
                     result.key_cache,
                     result.value_cache,
                     ints({static_cast<int>(block * shape[2] + p % shape[2])}),
                     scales);
      }
    }
    return result;
  }
  Tensor attend(const Model& model,
                const Batch& batch,
                const CacheScales& scales,
                const AttentionPath* path = nullptr) {
    const Tensor out = make(batch.q.shape());
    AttentionCall call = call_of(model, batch, out);
    call.path = path;
    call.scales = scales;
    launch_attention(stream_, kernels(), call);
    return out;
  }
};

constexpr CacheScales kSomeScales = {.k = 0.03F, .v = 0.07F};

TEST_P(QuantizedCache, is_written_as_the_reference_writes_it) {
  for (const CacheKind& kind : kCacheKinds) {
    for (int64_t head_dim : {2, 16, 33, 64, 100, 128, 512}) {
      SCOPED_TRACE(testing::Message() << dtype_name(kind.dtype) << " heads of " << head_dim);
      const Tensor k = random_strided({6, 3, head_dim});
      const Tensor v = random_strided({6, 3, head_dim});
      const Tensor slots = ints({79, 0, -1, 33, 80, 16});
      const Caches got = make_caches(kind, 3, head_dim);
      launch_kv_write(stream_, kernels(), k, v, got.keys, got.values, slots, kSomeScales);
      const Caches want = make_caches(kind, 3, head_dim);
      kv_write_ref(k, v, want.keys, want.values, slots, kSomeScales);
      expect_same(got, want);
    }
  }
}

TEST_P(QuantizedCache, holds_each_element_within_the_tolerance_of_its_format) {
  for (const CacheKind& kind : kCacheKinds) {
    SCOPED_TRACE(dtype_name(kind.dtype));
    const int64_t head_dim = 64;
    const Tensor k = random({16, 2, head_dim});
    const Caches caches = make_caches(kind, 2, head_dim);
    std::vector<int> slots(16);
    std::iota(slots.begin(), slots.end(), 20);
    launch_kv_write(stream_, kernels(), k, k, caches.keys, caches.values, ints(slots), kSomeScales);
    for (int64_t token = 0; token < 16; ++token) {
      for (int64_t head = 0; head < 2; ++head) {
        double largest = 0;
        for (int64_t i = 0; i < head_dim; ++i) {
          largest = std::max(largest, std::abs(element(k, token, head, i)));
        }
        const int64_t slot = 20 + token;
        const std::vector<double> row =
            cache_row(caches.values, head_dim, kSomeScales.v, {slot / 16, head, slot % 16});
        for (int64_t i = 0; i < head_dim; ++i) {
          const double want = element(k, token, head, i);
          const double got = row[static_cast<size_t>(i)];
          // The smallest steps of float8: 2^-9 and 2^-16 of the scale.
          const double step = kind.has_row_scales ? largest / 448 : double{kSomeScales.v};
          EXPECT_LE(std::abs(got - want),
                    kind.relative * std::abs(want) + kind.of_largest * largest * 1.001 +
                        (kind.relative > 0 ? step * 0x1p-10 : 0))
              << "token " << token << ", head " << head << ", element " << i;
        }
      }
    }
  }
}

TEST_P(QuantizedCache, keeps_a_nan_and_a_row_of_zeros) {
  for (const CacheKind& kind : kCacheKinds) {
    SCOPED_TRACE(dtype_name(kind.dtype));
    const Tensor k = random({2, 1, 32});
    const Tensor v = random({2, 1, 32});
    set_element(k, NAN, 0, 0, 7);
    for (int64_t i = 0; i < 32; ++i) set_element(v, 0, 1, 0, i);
    const Caches caches = make_caches(kind, 1, 32);
    launch_kv_write(stream_, kernels(), k, v, caches.keys, caches.values, ints({3, 4}));
    EXPECT_TRUE(std::isnan(cache_row(caches.keys, 32, 1.0F, {0, 0, 3})[7]));
    const std::vector<double> zeros = cache_row(caches.values, 32, 1.0F, {0, 0, 4});
    for (size_t i = 0; i < 32; ++i) EXPECT_EQ(zeros[i], 0.0);
  }
}

TEST_P(QuantizedCache, is_written_by_fused_kernels_as_by_kernels_apart) {
  for (const CacheKind& kind : kCacheKinds) {
    for (int64_t head_dim : {16, 48, 62, 128}) {
      for (bool has_norms : {false, true}) {
        SCOPED_TRACE(testing::Message() << dtype_name(kind.dtype) << ' ' << head_dim);
        const int64_t rows = 5;
        const Tensor x = random({rows, 40});
        const Tensor weight = random({4 * head_dim, 40});
        const Tensor positions = ints({0, 49, 20, 7, 3});
        const Tensor cos_sin = random({50, head_dim}, DType::f32, 1.0);
        const Tensor slots = ints({79, 0, -1, 33, 20});
        const Tensor norm = has_norms ? random({head_dim}) : Tensor();
        const auto call = [&](const Caches& caches, const Tensor& q_out) {
          return RopeAndCacheCall{.positions = positions,
                                  .cos_sin = cos_sin,
                                  .key_cache = caches.keys,
                                  .value_cache = caches.values,
                                  .slot_mapping = slots,
                                  .q_norm = norm,
                                  .k_norm = norm,
                                  .epsilon = 1e-6F,
                                  .q_out = q_out,
                                  .scales = kSomeScales};
        };
        const Caches of_product = make_caches(kind, 1, head_dim);
        const Tensor q_of_product = make({rows, 2, head_dim});
        launch_linear_rope_kv_write(
            stream_, kernels(), x, weight, {}, call(of_product, q_of_product));

        const Tensor product = make({rows, 4 * head_dim});
        launch_linear(stream_, kernels(), x, weight, {}, product);
        const auto part = [&](int64_t first, int64_t count) {
          return product.with_layout(
              {rows, count, head_dim}, {4 * head_dim, head_dim, 1}, first * head_dim);
        };
        const Caches of_rope = make_caches(kind, 1, head_dim);
        const Tensor q_of_rope = make({rows, 2, head_dim});
        launch_rope_kv_write(
            stream_, kernels(), part(0, 2), part(2, 1), part(3, 1), call(of_rope, q_of_rope));
        expect_same(of_product, of_rope);
        expect_same_bits(q_of_product, q_of_rope);

        const auto normed = [&](const Tensor& heads) {
          if (!has_norms) return heads;
          const Tensor out = make(heads.shape());
          launch_rms_norm(stream_, kernels(), heads, norm, 1e-6F, out);
          return out;
        };
        const Caches apart = make_caches(kind, 1, head_dim);
        const Tensor q = make({rows, 2, head_dim});
        const Tensor k = make({rows, 1, head_dim});
        launch_rope(
            stream_, kernels(), normed(part(0, 2)), normed(part(2, 1)), positions, cos_sin, q, k);
        launch_kv_write(
            stream_, kernels(), k, part(3, 1), apart.keys, apart.values, slots, kSomeScales);
        expect_same(of_rope, apart);
        expect_same_bits(q_of_rope, q);
      }
    }
  }
}

TEST_P(QuantizedCache, is_read_as_the_oracle_reads_it) {
  const std::vector<Request> requests = {
      {.query = 33, .context = 33}, {.query = 1, .context = 100}, {.query = 3, .context = 65}};
  for (const CacheKind& kind : kCacheKinds) {
    for (const Model& model : {Model{},
                               Model{.group_size = 7, .head_dim = 64},
                               Model{.head_dim = 100, .block_size = 8, .sliding_window = 20},
                               Model{.group_size = 33, .head_dim = 48, .soft_cap = 2},
                               Model{.kv_heads = 1, .group_size = 1, .head_dim = 512}}) {
      SCOPED_TRACE(testing::Message() << dtype_name(kind.dtype) << ' ' << model.head_dim);
      const Batch batch = quantized(make_batch(model, requests, 3), kind, kSomeScales);
      const Tensor want = make_ref(batch.q.shape());
      AttentionCall call = call_of(model, batch, want);
      call.scales = kSomeScales;
      attention_ref(call);
      expect_close(attend(model, batch, kSomeScales), want, 1.01 * rounding_error(dtype()), 4e-6);
    }
  }
}

TEST_P(QuantizedCache, is_read_by_attention_with_sinks_and_in_both_directions) {
  for (const CacheKind& kind : kCacheKinds) {
    for (bool is_bidirectional : {false, true}) {
      SCOPED_TRACE(testing::Message() << dtype_name(kind.dtype) << ' ' << is_bidirectional);
      const Model model = {.head_dim = 48, .is_bidirectional = is_bidirectional};
      Batch batch = quantized(make_batch(model, {{33, 33}, {1, 1}, {40, 40}}), kind, kSomeScales);
      if (!is_bidirectional) batch.sinks = random({4}, 3.0);
      const Tensor want = make_ref(batch.q.shape());
      AttentionCall call = call_of(model, batch, want);
      call.scales = kSomeScales;
      attention_ref(call);
      expect_close(attend(model, batch, kSomeScales), want, 1.01 * rounding_error(dtype()), 4e-6);
    }
  }
}

TEST_P(QuantizedCache, gives_every_path_and_every_chunk_the_same_bits) {
  const Model model = {.group_size = 3, .head_dim = 64};
  for (const CacheKind& kind : kCacheKinds) {
    SCOPED_TRACE(dtype_name(kind.dtype));
    const Batch prompt = quantized(make_batch(model, {{200, 230}}), kind, kSomeScales);
    const Tensor all = attend(model, prompt, kSomeScales);
    for (int first : {0, 1, 31, 150}) {
      Batch chunk = prompt;
      chunk.q = prompt.q.with_layout(
          {5, prompt.q.size(1), prompt.q.size(2)}, prompt.q.strides(), first * prompt.q.stride(0));
      chunk.query_start_loc = ints({0, 5});
      chunk.seq_lens = ints({30 + first + 5});
      const AttentionPath uniform = {.kind = AttentionPath::Kind::uniform, .query_len = 5};
      const Tensor out = attend(model, chunk, kSomeScales);
      expect_same_bits(attend(model, chunk, kSomeScales, &uniform), out);
      for (int token = 0; token < 5; ++token) expect_same_row(out, token, all, first + token);
    }
  }
}

TEST_P(QuantizedCache, is_read_in_parts_of_a_long_context) {
  const Model model = {.group_size = 2, .head_dim = 64};
  const std::vector<PlannedLengths> lengths = {{1, 700}};
  const TestPlan plan = make_test_plan(lengths, {});
  for (const CacheKind& kind : kCacheKinds) {
    const Batch batch = quantized(make_batch(model, {{1, 700}}), kind, kSomeScales);
    const AttentionPath path = {
        .kind = AttentionPath::Kind::planned,
        .plan = ints(plan.words),
        .partials = make({std::max(plan.num_parts, 1) * 4 * (model.head_dim + 2)}, DType::f32)};
    const Tensor want = make_ref(batch.q.shape());
    AttentionCall call = call_of(model, batch, want);
    call.scales = kSomeScales;
    attention_ref(call);
    expect_close(
        attend(model, batch, kSomeScales, &path), want, 1.01 * rounding_error(dtype()), 4e-6);
  }
}

TEST_P(QuantizedCache, is_read_in_segments_of_a_long_context) {
  const Model model = {.kv_heads = 1, .head_dim = 64};
  for (const CacheKind& kind : kCacheKinds) {
    SCOPED_TRACE(dtype_name(kind.dtype));
    const Batch batch = quantized(make_batch(model, {{1, 2100}}), kind, kSomeScales);
    const AttentionPath path = {
        .segment_sums = make({2 * 2 * (model.head_dim + 2)}, DType::f32),
        .segment_counters = ints({0, 0}),
    };
    const Tensor want = make_ref(batch.q.shape());
    AttentionCall call = call_of(model, batch, want);
    call.scales = kSomeScales;
    attention_ref(call);
    const Tensor got = attend(model, batch, kSomeScales, &path);
    expect_close(got, want, 1.01 * rounding_error(dtype()), 4e-6);
    expect_same_bits(got, attend(model, batch, kSomeScales));
  }
}

// The results must be close to those over the unquantised cache: a value has at most the error of
// its format, and the errors of keys change the weights little.
TEST_P(QuantizedCache, changes_attention_by_no_more_than_its_format) {
  const Model model = {.head_dim = 64};
  const Batch numbers = make_batch(model, {{1, 300}, {4, 90}});
  const Tensor want = run(model, numbers);
  for (const CacheKind& kind : kCacheKinds) {
    const Tensor got =
        attend(model, quantized(numbers, kind, {.k = 0.01F, .v = 0.01F}), {.k = 0.01F, .v = 0.01F});
    double error = 0;
    double size = 0;
    for (const RowIndex& row : all_rows(want)) {
      for (int64_t i = 0; i < model.head_dim; ++i) {
        const double w = row_element(want, row, i);
        error += std::pow(row_element(got, row, i) - w, 2);
        size += w * w;
      }
    }
    const double limit = kind.relative > 0 ? kind.relative : 0.02;
    EXPECT_LT(std::sqrt(error / size), limit) << dtype_name(kind.dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         QuantizedCache,
                         testing::ValuesIn(attention_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
