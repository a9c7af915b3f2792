#include "reprise/kernels/cuda/cache_codes.cuh"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"

// KV caches of eight bits on CUDA: the writes have the bytes of the reference, and attention reads
// them as the oracle does.
namespace reprise::kernels::cuda {
namespace {

constexpr std::array kCodes = {CodesOfCache{DType::f8e4m3, false},
                               CodesOfCache{DType::f8e5m2, false},
                               CodesOfCache{DType::f8e4m3, true},
                               CodesOfCache{DType::i8, true}};

class CudaEightBitCache : public CudaAttention {
 protected:
  void expect_all_agree(int64_t heads,
                        int64_t kv_heads,
                        int64_t head_dim,
                        const AttentionOptions& options) {
    if (is_uniform_only()) {
      expect_oracle({{2, 2, 2}, {40, 2, 130}}, heads, kv_heads, head_dim, 16, options);
      return;
    }
    expect_oracle({{3, 1, 17}, {40, 100, 65}, 5, 2}, heads, kv_heads, head_dim, 16, options);
  }
};

TEST_P(CudaEightBitCache, is_read_as_the_oracle_reads_it) {
  for (const CodesOfCache& codes : kCodes) {
    for (const int64_t head_dim : {32, 64, 80, 96, 128, 256, 100}) {
      SCOPED_TRACE(testing::Message() << dtype_name(codes.dtype) << " heads of " << head_dim
                                      << (codes.has_row_scales ? ", scales of rows" : ""));
      expect_all_agree(4, 2, head_dim, {.codes = codes});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CudaEightBitCache, is_read_with_windows_caps_and_sinks_and_in_parts) {
  for (const CodesOfCache& codes : kCodes) {
    SCOPED_TRACE(dtype_name(codes.dtype));
    expect_all_agree(6, 2, 64, {.window = 20, .soft_cap = 1.5F, .has_sinks = true, .codes = codes});
    expect_all_agree(4, 2, 24, {.has_biases = true, .codes = codes});
    expect_all_agree(4, 2, 64, {.is_bidirectional = true, .codes = codes});
    expect_oracle({.query_lens = {1, 1}, .seq_lens = {700, 40}},
                  8,
                  2,
                  128,
                  16,
                  AttentionOptions{.codes = codes});
    if (HasFatalFailure()) return;
  }
}

class CudaEightBitWrites : public CudaOps {
 protected:
  Tensor make_cache(const CodesOfCache& codes, int64_t kv_heads, int64_t head_dim) {
    return make({5, kv_heads, 16, head_dim + (codes.has_row_scales ? 4 : 0)}, codes.dtype);
  }
  static OpAttributes attributes() {
    OpAttributes attributes;
    attributes.epsilon = 1e-6F;
    attributes.k_scale = 0.03F;
    attributes.v_scale = 0.07F;
    return attributes;
  }
  static void expect_same_bytes(const Tensor& got, const Tensor& want) {
    ASSERT_EQ(got.type(), want.type());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.type().bytes()), 0)
        << got.type().to_string();
  }
  void write(const std::vector<Tensor>& inputs) {
    executor_.execute({.code = OpCode::kv_write, .attributes = attributes()}, inputs, {});
    stream_->synchronize();
  }
};

TEST_P(CudaEightBitWrites, have_the_bytes_of_the_reference) {
  const Tensor slots = ints({6}, {79, 0, -1, 33, 80, 16});
  for (const CodesOfCache& codes : kCodes) {
    for (const int64_t head_dim : {2, 16, 33, 64, 100, 128, 512}) {
      SCOPED_TRACE(testing::Message() << dtype_name(codes.dtype) << " heads of " << head_dim);
      const Tensor k = random({6, 3, head_dim});
      const Tensor v = random({6, 3, head_dim});
      set_element(k, NAN, 3, 1, 0);
      for (int64_t i = 0; i < head_dim; ++i) set_element(v, 0, 1, 0, i);
      const std::array got = {make_cache(codes, 3, head_dim), make_cache(codes, 3, head_dim)};
      write({k, v, got[0], got[1], slots});
      const std::array want = {make_cache(codes, 3, head_dim), make_cache(codes, 3, head_dim)};
      kv_write_ref(k, v, want[0], want[1], slots, {.k = 0.03F, .v = 0.07F});
      expect_same_bytes(got[0], want[0]);
      expect_same_bytes(got[1], want[1]);
    }
  }
}

TEST_P(CudaEightBitWrites, of_fused_kernels_have_the_bytes_of_kernels_apart) {
  const Tensor slots = ints({5}, {79, 0, -1, 33, 20});
  const Tensor positions = ints({5}, {0, 49, 20, 7, 3});
  for (const CodesOfCache& codes : kCodes) {
    for (const int64_t head_dim : {16, 62, 128}) {
      for (const bool has_norms : {false, true}) {
        SCOPED_TRACE(testing::Message() << dtype_name(codes.dtype) << ' ' << head_dim);
        const Tensor x = random({5, 40});
        const Tensor weight = random({4 * head_dim, 40});
        const Tensor table = make({50, head_dim}, DType::f32);
        fill(table, 1.0);
        const Tensor norm = has_norms ? random({head_dim}) : Tensor{};
        const auto caches = [&] {
          return std::array{make_cache(codes, 1, head_dim), make_cache(codes, 1, head_dim)};
        };
        const auto of_product = caches();
        OpAttributes of_heads = attributes();
        of_heads.length = 2;
        const Tensor q = run(
            OpCode::linear_rope_kv_write,
            {x, weight, {}, positions, table, of_product[0], of_product[1], slots, norm, norm, {}},
            of_heads);

        const Tensor product = run(OpCode::linear, {x, weight, {}});
        const auto part = [&](int64_t first, int64_t count) {
          return product.with_layout(
              {5, count, head_dim}, {4 * head_dim, head_dim, 1}, first * head_dim);
        };
        // Into caches of the model's type, whose rows the reference then quantises.
        const std::array numbers = {make({5, 1, 16, head_dim}), make({5, 1, 16, head_dim})};
        const Tensor want_q = run(OpCode::rope_kv_write,
                                  {part(0, 2),
                                   part(2, 1),
                                   part(3, 1),
                                   positions,
                                   table,
                                   numbers[0],
                                   numbers[1],
                                   slots,
                                   norm,
                                   norm},
                                  attributes());
        const auto want = caches();
        for (const int32_t slot : {79, 0, 33, 20}) {
          const auto row = [&](const Tensor& cache) {
            return cache.with_layout({1, 1, head_dim}, {1, head_dim, 1}, slot * head_dim);
          };
          kv_write_ref(row(numbers[0]),
                       row(numbers[1]),
                       want[0],
                       want[1],
                       ints({1}, {slot}),
                       {.k = 0.03F, .v = 0.07F});
        }
        expect_same_bytes(q, want_q);
        expect_same_bytes(of_product[0], want[0]);
        expect_same_bytes(of_product[1], want[1]);
        if (HasFailure()) return;
      }
    }
  }
}

/// Every code, widened for the tensor cores, is the number that the code stands for.
template <typename T>
void expect_exact_values(CacheType type) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float want = value_of_code(type, static_cast<uint8_t>(code));
    if (!std::isfinite(want)) continue;
    const uint32_t other = 255 - code == 127 ? 0 : 255 - code;
    // Bytes 0 and 2 belong to other elements.
    const uint32_t pair = widen_pair<T>(0x005A00A5U | (code << 8) | (other << 24), type);
    EXPECT_EQ(as_float(T{static_cast<uint16_t>(pair)}), want) << code;
    const float high = value_of_code(type, static_cast<uint8_t>(other));
    if (!std::isfinite(high)) continue;
    EXPECT_EQ(as_float(T{static_cast<uint16_t>(pair >> 16)}), high) << other;
  }
}

TEST(CudaCodes, are_widened_exactly) {
  for (const CacheType type : {CacheType::f8e4m3, CacheType::f8e5m2, CacheType::i8}) {
    expect_exact_values<BFloat16>(type);
    expect_exact_values<Float16>(type);
  }
}

INSTANTIATE_TEST_SUITE_P(Types,
                         CudaEightBitCache,
                         testing::Combine(testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::Values(AttentionPath::Kind::any_batch,
                                                          AttentionPath::Kind::uniform,
                                                          AttentionPath::Kind::planned)));
INSTANTIATE_TEST_SUITE_P(Types,
                         CudaEightBitWrites,
                         testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& tested) { return std::string(dtype_name(tested.param)); });

}  // namespace
}  // namespace reprise::kernels::cuda
