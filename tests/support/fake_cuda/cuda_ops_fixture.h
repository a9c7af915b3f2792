#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/kernels/attention/attention.h"
#include "reprise/tensor/op_table.h"
#include "tests/support/fake_cuda/cuda_machine_fixture.h"
#include "tests/support/fake_cuda/host_block_fixture.h"
#include "tests/support/kernels/attention_plan_fixture.h"
#include "tests/support/kernels/oracles/caches.h"
#include "tests/support/kernels/reference.h"

/// For tests: ops on CUDA over tensors that the host also reads and writes, so that the tests can
/// compare results with the oracles of the CPU's kernels.
namespace reprise::kernels::cuda {

template <typename Param>
class CudaOpsOf : public testing::TestWithParam<Param> {
 protected:
  CudaOpsOf() = default;
  explicit CudaOpsOf(const FlashInferKernels& flashinfer) : flashinfer_(flashinfer) {}

  [[nodiscard]] virtual DType dtype() const = 0;

  Tensor make(Shape shape, DType type) {
    Tensor tensor =
        Tensor::own({type, shape},
                    device::PoolReference(pool_->allocate(TensorType{type, shape}.bytes())),
                    executor_);
    std::memset(tensor.data(), 0xFF, TensorType{type, shape}.bytes());
    return tensor;
  }
  Tensor make(Shape shape) { return make(shape, dtype()); }
  Tensor random(Shape shape, double deviation = 1.0) {
    Tensor tensor = make(shape);
    fill(tensor, deviation);
    return tensor;
  }
  void fill(const Tensor& tensor, double deviation) { fill_normal(tensor, random_, deviation); }
  Tensor ints(Shape shape, const std::vector<int32_t>& values) {
    Tensor tensor = make(shape, DType::i32);
    std::memcpy(tensor.data(), values.data(), values.size() * 4);
    return tensor;
  }
  Tensor own(const TensorType& type) {
    return Tensor::own(type, device::PoolReference(pool_->allocate(type.bytes())), executor_);
  }
  /// The weight as `num_experts` matrices of neighbouring rows.
  Tensor as_experts(const Tensor& weight, int64_t num_experts) {
    owners_.push_back(weight);
    TensorType type = weight.type();
    type.shape = {num_experts, type.shape[0] / num_experts, type.shape[1]};
    return Tensor::borrow(type, weight.data(), executor_);
  }
  /// top_k different experts for each token; some rows have none.
  Tensor choose(int64_t tokens, int64_t top_k, int64_t num_experts, bool has_missing) {
    std::vector<int32_t> chosen;
    for (int64_t token = 0; token < tokens; ++token) {
      const auto first = static_cast<int64_t>(random_() % static_cast<uint64_t>(num_experts));
      for (int64_t k = 0; k < top_k; ++k) {
        const bool is_missing = has_missing && random_() % 5 == 0;
        chosen.push_back(is_missing ? -1 : static_cast<int32_t>((first + k) % num_experts));
      }
    }
    return ints({tokens, top_k}, chosen);
  }
  /// Rows in blocks, for a weight in blocks.
  Tensor quantized(const Tensor& x) {
    OpAttributes attributes;
    attributes.type.dtype = DType::i8;
    return run(OpCode::quantize_blocks, {x}, attributes);
  }
  /// Runs one op. Operands that are missing at the end are left out.
  Tensor run(OpCode code, std::vector<Tensor> inputs, OpAttributes attributes = {}) {
    std::array<Tensor, 1> outputs;
    inputs.resize(std::max(inputs.size(), definition_of(code).rule.operands.size));
    executor_.execute({.code = code, .attributes = attributes}, inputs, outputs);
    stream_->synchronize();
    return outputs[0];
  }
  [[nodiscard]] double unit() const {
    return dtype() == DType::f32 ? 1e-6 : (dtype() == DType::bf16 ? 1.0 / 256 : 1.0 / 2048);
  }
  void expect_close(const Tensor& got, const Tensor& want, double absolute) {
    ASSERT_EQ(got.shape(), want.shape());
    for (const RowIndex& row : all_rows(want)) {
      for (int64_t i = 0; i < want.size(-1); ++i) {
        const double wanted = row_element(want, row, i);
        const double found = row_element(got, row, i);
        ASSERT_NEAR(found, wanted, absolute + 1.01 * unit() * std::abs(wanted)) << "column " << i;
      }
    }
  }

  CudaMachine machine_{MachineKind::real_if_there};
  std::unique_ptr<device::Stream> stream_ = machine_.device().create_stream();
  std::unique_ptr<device::MemoryPool> pool_ = machine_.create_host_pool();
  FlashInferKernels flashinfer_;
  CudaExecutor executor_{*stream_, *pool_, {.num_multiprocessors = 4, .flashinfer = flashinfer_}};
  std::mt19937 random_{7};

 private:
  std::vector<Tensor> owners_;  // of the memory of experts
};

class CudaOps : public CudaOpsOf<DType> {
 protected:
  [[nodiscard]] DType dtype() const override { return GetParam(); }

  /// Expects that products of all kinds touch only weights before the kernels ahead are done.
  /// `columns`: a multiple of 64. Only for the fake driver.
  void expect_only_weights_are_read_early(int64_t rows, int64_t depth, int64_t columns) {
    const int64_t heads = columns / 16;  // a quarter each of keys and of values
    const Tensor x = random({rows, depth});
    const Tensor weight = random({columns, depth});
    const Tensor bias = random({columns});
    const Tensor residual = random({rows, columns});
    const Tensor norm = random({depth});
    const Tensor wanted = ints({1}, {static_cast<int32_t>(rows)});
    const Tensor table = make({4, 16}, DType::f32);
    fill(table, 1);
    const Tensor positions = ints({rows}, std::vector<int32_t>(static_cast<size_t>(rows), 2));
    std::vector<int32_t> places(static_cast<size_t>(rows));
    std::iota(places.begin(), places.end(), 0);
    const Tensor slots = ints({rows}, places);
    const Tensor keys = random({2, heads / 4, 8, 16});
    const Tensor values = random({2, heads / 4, 8, 16});
    OpAttributes attributes;
    attributes.length = heads / 2;
    for (const Tensor& before : {Tensor(), norm}) {
      const std::vector<std::pair<OpCode, std::vector<Tensor>>> calls = {
          {OpCode::linear, {x, weight, bias, {}}},
          {OpCode::linear_silu_and_mul, {x, weight, bias, {}, before}},
          {OpCode::linear_add, {x, weight, bias, residual, {}}},
          {OpCode::lm_head, {x, weight, wanted, {}, before}},
          {OpCode::linear_rope_kv_write,
           {x, weight, bias, positions, table, keys, values, slots, {}, {}, before}}};
      for (const auto& [code, inputs] : calls) {
        expect_same_bits_behind_kernels(
            code, inputs, attributes, {x, residual, wanted, positions, slots, keys, values});
      }
    }
  }

  /// Runs an op alone, then behind kernels that write `written` and the result.
  void expect_same_bits_behind_kernels(OpCode code,
                                       const std::vector<Tensor>& inputs,
                                       const OpAttributes& attributes,
                                       std::vector<Tensor> written) {
    const Tensor want = run(code, inputs, attributes);
    std::array<Tensor, 1> outputs{make(want.shape(), want.dtype())};
    const Tensor got = outputs[0];
    written.push_back(got);
    std::vector<std::span<std::byte>> memory;
    for (const Tensor& tensor : written) {
      memory.emplace_back(tensor.data_as<std::byte>(), tensor.type().bytes());
    }
    {
      const EarlierKernelsWork work(memory);
      executor_.execute({.code = code, .attributes = attributes}, inputs, outputs);
      stream_->synchronize();
    }
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.type().bytes()), 0) << op_name(code);
  }
};

/// A batch of requests over a cache. Some rows of the cache must not be read.
struct Batch {
  std::vector<int32_t> query_lens;
  std::vector<int32_t> seq_lens;
  int32_t padding_tokens = 0;
  int32_t padding_reqs = 0;
};

/// A cache of eight bits.
struct CodesOfCache {
  DType dtype;
  bool has_row_scales;
};

/// The kind of attention. (The batch determines the sizes of heads.)
struct AttentionOptions {
  int64_t window = 0;
  int64_t chunk_size = 0;
  float soft_cap = 0;
  bool has_sinks = false;
  bool has_biases = false;
  bool is_bidirectional = false;
  // For latent attention: there is one cache, and each of its rows begins with the value.
  int64_t latent_size = 0;
  std::optional<CodesOfCache> codes = {};  // nothing: a cache of the type of the queries
};

using CudaAttentionCase = std::tuple<DType, AttentionPath::Kind>;

class CudaAttention : public CudaOpsOf<CudaAttentionCase> {
 protected:
  using CudaOpsOf::CudaOpsOf;

  [[nodiscard]] DType dtype() const override { return std::get<0>(GetParam()); }
  [[nodiscard]] AttentionPath::Kind kind() const { return std::get<1>(GetParam()); }

  void use_plan(std::span<const PlannedLengths> lengths,
                const PlanOptions& options,
                int64_t heads,
                int64_t head_dim) {
    const TestPlan plan = make_test_plan(lengths, options);
    executor_.set_attention(
        {.kind = AttentionPath::Kind::planned,
         .plan = ints({static_cast<int64_t>(plan.words.size())}, plan.words),
         .partials = make({std::max(plan.num_parts, 1) * heads * (head_dim + 2)}, DType::f32)});
  }

  void use_path(const Batch& batch, const PlanOptions& options, int64_t heads, int64_t head_dim) {
    if (kind() != AttentionPath::Kind::planned) {
      return executor_.set_attention({.kind = kind(), .query_len = batch.query_lens[0]});
    }
    std::vector<PlannedLengths> lengths;
    for (size_t r = 0; r < batch.query_lens.size(); ++r) {
      lengths.push_back({batch.query_lens[r], batch.seq_lens[r]});
    }
    use_plan(lengths, options, heads, head_dim);
  }

  /// Fills the cache rows that lie in a request's blocks after its last position: no kernel may
  /// read these rows.
  static void fill_behind(const std::vector<int32_t>& lens,
                          const std::vector<int32_t>& table,
                          const Tensor& cache,
                          double value) {
    const int64_t block_size = cache.size(2);
    const size_t blocks_per_req = table.size() / lens.size();
    for (size_t r = 0; r < lens.size(); ++r) {
      for (int64_t p = lens[r]; p < static_cast<int64_t>(blocks_per_req) * block_size; ++p) {
        const int64_t block = table[r * blocks_per_req + static_cast<size_t>(p / block_size)];
        for (int64_t h = 0; h < cache.size(1); ++h) {
          for (int64_t i = 0; i < cache.size(3); ++i) {
            set_element(cache, value, block, h, p % block_size, i);
          }
        }
      }
    }
  }

  static constexpr CacheScales kCacheScales = {.k = 0.03F, .v = 0.07F};

  /// The positions of the requests in a cache of eight bits. All other bytes stay 0xFF. Keys and
  /// values go through the same function.
  Tensor codes_of(const CodesOfCache& kind,
                  const std::vector<int32_t>& lens,
                  const std::vector<int32_t>& table,
                  const Tensor& cache,
                  float scale) {
    const Shape& shape = cache.shape();
    const Tensor codes =
        make({shape[0], shape[1], shape[2], shape[3] + (kind.has_row_scales ? 4 : 0)}, kind.dtype);
    const Tensor unused = make(codes.shape(), kind.dtype);
    const size_t blocks_per_req = table.size() / lens.size();
    for (size_t r = 0; r < lens.size(); ++r) {
      for (int64_t p = 0; p < lens[r]; ++p) {
        const int64_t block = table[r * blocks_per_req + static_cast<size_t>(p / shape[2])];
        const Tensor row =
            cache.with_layout({1, shape[1], shape[3]},
                              {1, shape[2] * shape[3], 1},
                              (block * shape[1] * shape[2] + p % shape[2]) * shape[3]);
        const auto slot = static_cast<int32_t>(block * shape[2] + p % shape[2]);
        kv_write_ref(row, row, codes, unused, ints({1}, {slot}), {.k = scale, .v = scale});
      }
    }
    return codes;
  }

  static OpCode op_of(const AttentionOptions& options) {
    if (options.latent_size > 0) return OpCode::mla_attention;
    if (options.has_sinks) return OpCode::attention_with_sinks;
    if (options.has_biases) return OpCode::attention_with_biases;
    return options.is_bidirectional ? OpCode::encoder_attention : OpCode::attention;
  }

  [[nodiscard]] bool is_uniform_only() const { return kind() == AttentionPath::Kind::uniform; }

  void expect_oracle(const Batch& batch,
                     int64_t heads,
                     int64_t kv_heads,
                     int64_t head_dim,
                     int64_t block_size,
                     int64_t window = 0,
                     const PlanOptions& plan_options = {}) {
    expect_oracle(batch,
                  heads,
                  kv_heads,
                  head_dim,
                  block_size,
                  AttentionOptions{.window = window},
                  plan_options);
  }

  void expect_oracle(const Batch& batch,
                     int64_t heads,
                     int64_t kv_heads,
                     int64_t head_dim,
                     int64_t block_size,
                     const AttentionOptions& options,
                     const PlanOptions& plan_options = {}) {
    std::vector<int32_t> starts{0};
    for (int32_t len : batch.query_lens) starts.push_back(starts.back() + len);
    const int64_t tokens = starts.back() + batch.padding_tokens;
    std::vector<int32_t> lens = batch.seq_lens;
    for (int32_t i = 0; i < batch.padding_reqs; ++i) {
      starts.push_back(starts.back());
      lens.push_back(0);
    }
    const auto reqs = static_cast<int64_t>(lens.size());
    const int64_t longest = *std::max_element(lens.begin(), lens.end());
    const int64_t blocks_per_req = (longest + block_size - 1) / block_size + 1;
    std::vector<int32_t> table(static_cast<size_t>(reqs * blocks_per_req));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), random_);
    Tensor keys = random({reqs * blocks_per_req, kv_heads, block_size, head_dim});
    Tensor values = options.latent_size > 0 ? keys : random(keys.shape());
    for (const Tensor& cache : {keys, values}) fill_behind(lens, table, cache, NAN);
    if (options.codes) {
      keys = codes_of(*options.codes, lens, table, keys, kCacheScales.k);
      values = codes_of(*options.codes, lens, table, values, kCacheScales.v);
    }
    const Tensor q = random({tokens, heads, head_dim});
    const Tensor start_tensor = ints({reqs + 1}, starts);
    const Tensor len_tensor = ints({reqs}, lens);
    const Tensor table_tensor = ints({reqs, blocks_per_req}, table);
    const int64_t value_dim = options.latent_size > 0 ? options.latent_size : head_dim;
    const Tensor out = make({tokens, heads, value_dim});
    const Tensor want = make(out.shape(), DType::f32);
    const Tensor sinks = random({heads}, 2.0);
    const Tensor biases = make({heads, longest}, DType::f32);
    fill(biases, 4.0);
    const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
    attention_ref({.q = q,
                   .key_cache = keys,
                   .value_cache = values,
                   .query_start_loc = start_tensor,
                   .seq_lens = len_tensor,
                   .block_table = table_tensor,
                   .out = want,
                   .scale = scale,
                   .sliding_window = options.window,
                   .chunk_size = options.chunk_size,
                   .soft_cap = options.soft_cap,
                   .sinks = options.has_sinks ? &sinks : nullptr,
                   .biases = options.has_biases ? &biases : nullptr,
                   .is_bidirectional = options.is_bidirectional,
                   .scales = kCacheScales});
    use_path(batch, plan_options, heads, head_dim);
    std::vector<Tensor> inputs{q, keys};
    if (options.latent_size == 0) inputs.push_back(values);
    inputs.insert(inputs.end(), {start_tensor, len_tensor, table_tensor});
    if (options.has_sinks) inputs.push_back(sinks);
    if (options.has_biases) inputs.push_back(biases);
    inputs.push_back(out);
    if (options.latent_size > 0) inputs.insert(inputs.end(), 2, Tensor{});  // no index
    expect_in_two_rounds(options, scale, inputs, out, want);
  }

  /// Runs a launch in two rounds with different orders of threads: the state that the first launch
  /// leaves must be valid for the second.
  void expect_in_two_rounds(const AttentionOptions& options,
                            float scale,
                            const std::vector<Tensor>& inputs,
                            const Tensor& out,
                            const Tensor& want) {
    OpAttributes attributes;
    attributes.scale = scale;
    attributes.sliding_window = options.window;
    attributes.chunk_size = options.chunk_size;
    attributes.soft_cap = options.soft_cap;
    attributes.k_scale = kCacheScales.k;
    attributes.v_scale = kCacheScales.v;
    const size_t bytes = out.type().bytes();
    std::vector<std::byte> first_round;
    for (int round = 0; round < 2; ++round) {
      executor_.execute({.code = op_of(options), .attributes = attributes}, inputs, {});
      stream_->synchronize();
      expect_close(out, want, dtype() == DType::f32 ? 1e-5 : 2.5 * unit());
      if (HasFatalFailure()) return;
      const auto* result = out.data_as<std::byte>();
      if (round == 0) first_round.assign(result, result + bytes);
      ASSERT_EQ(std::memcmp(first_round.data(), result, bytes), 0);
      std::memset(out.data(), 0xFF, bytes);
    }
  }
};

}  // namespace reprise::kernels::cuda
