#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "reprise/kernels/attention/attention.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/caches.h"

/// For tests of attention kernels only.
namespace reprise::kernels {

struct Request {
  int query;    // tokens of this step
  int context;  // positions in the cache, with the tokens of this step
};

struct Model {
  int64_t kv_heads = 2;
  int64_t group_size = 2;
  int64_t head_dim = 32;
  int64_t block_size = 16;
  int64_t sliding_window = 0;
  int64_t chunk_size = 0;
  float soft_cap = 0;
  /// The size of a latent: all heads share the rows of the key cache, which are the keys and begin
  /// with the value. 0: the caches hold keys and values.
  int64_t latent_size = 0;
  bool is_bidirectional = false;
};

/// Makes batches over caches. The parts of a cache that no request uses hold poison values.
class AttentionTest : public KernelTest {
 protected:
  // One batch with its caches. The blocks of a request are scattered. Cache rows that belong to no
  // request, and block table entries after a request's last block, hold poison values.
  struct Batch {
    Tensor q;
    Tensor key_cache;
    Tensor value_cache;
    Tensor query_start_loc;
    Tensor seq_lens;
    Tensor block_table;
    Tensor sinks;   // undefined: none
    Tensor biases;  // undefined: none
  };

  Batch make_batch(const Model& model,
                   const std::vector<Request>& requests,
                   int padding_tokens = 0) {
    std::vector<int> starts = {0};
    std::vector<int> lens;
    int64_t max_blocks = 1;
    int64_t num_blocks = 1;
    for (const Request& request : requests) {
      starts.push_back(starts.back() + request.query);
      lens.push_back(request.context);
      const int64_t blocks = (request.context + model.block_size - 1) / model.block_size;
      max_blocks = std::max(max_blocks, blocks + 1);
      num_blocks += blocks;
    }
    const auto num_reqs = static_cast<int64_t>(requests.size());
    Batch batch = {
        .q = random_strided(
            {starts.back() + padding_tokens, model.kv_heads * model.group_size, model.head_dim}),
        .key_cache = make({num_blocks, model.kv_heads, model.block_size, model.head_dim}),
        .value_cache = make({num_blocks, model.kv_heads, model.block_size, model.head_dim}),
        .query_start_loc = ints(starts),
        .seq_lens = ints(lens),
        // If a kernel reads this entry by mistake, its address is far outside of the memory.
        .block_table = ints({num_reqs, max_blocks},
                            std::vector<int>(static_cast<size_t>(num_reqs * max_blocks), 1 << 30))};
    std::vector<int> free_blocks(static_cast<size_t>(num_blocks));
    std::iota(free_blocks.begin(), free_blocks.end(), 0);
    std::shuffle(free_blocks.begin(), free_blocks.end(), random_);
    for (int64_t r = 0; r < num_reqs; ++r) {
      for (int64_t position = 0; position < lens[static_cast<size_t>(r)]; ++position) {
        if (position % model.block_size == 0) {
          set_element(batch.block_table, free_blocks.back(), r, position / model.block_size);
          free_blocks.pop_back();
        }
        fill_position(batch, r, position);
      }
    }
    return batch;
  }

  void fill_position(const Batch& batch, int64_t request, int64_t position) {
    const int64_t block_size = batch.key_cache.size(2);
    const int64_t block = int_element(batch.block_table, request, position / block_size);
    std::normal_distribution<double> normal;
    for (int64_t head = 0; head < batch.key_cache.size(1); ++head) {
      for (int64_t i = 0; i < batch.key_cache.size(3); ++i) {
        set_element(batch.key_cache, normal(random_), block, head, position % block_size, i);
        set_element(batch.value_cache, normal(random_), block, head, position % block_size, i);
      }
    }
  }

  AttentionCall call_of(const Model& model, const Batch& batch, const Tensor& out) {
    return {.q = batch.q,
            .key_cache = batch.key_cache,
            .value_cache = model.latent_size > 0 ? batch.key_cache : batch.value_cache,
            .query_start_loc = batch.query_start_loc,
            .seq_lens = batch.seq_lens,
            .block_table = batch.block_table,
            .out = out,
            .scale = 1.0F / std::sqrt(static_cast<float>(model.head_dim)),
            .sliding_window = model.sliding_window,
            .chunk_size = model.chunk_size,
            .soft_cap = model.soft_cap,
            .sinks = batch.sinks.defined() ? &batch.sinks : nullptr,
            .biases = batch.biases.defined() ? &batch.biases : nullptr,
            .is_bidirectional = model.is_bidirectional};
  }
  static Shape result_shape(const Model& model, const Batch& batch) {
    const int64_t value_dim = model.latent_size > 0 ? model.latent_size : model.head_dim;
    return {batch.q.size(0), batch.q.size(1), value_dim};
  }

  Tensor run(const Model& model, const Batch& batch, const AttentionPath* path = nullptr) {
    const Tensor out = make(result_shape(model, batch));
    AttentionCall call = call_of(model, batch, out);
    call.path = path;
    launch_attention(stream_, kernels(), call);
    return out;
  }

  /// How far rounded weights may move a result. Attention in pairs and in tiles rounds each weight
  /// by at most 2^-9 of the weight, so the total moves by at most the same factor; the values
  /// differ from the result by about 2. Where all weights are equal, they are exact: a test of this
  /// case allows 4e-6 everywhere.
  [[nodiscard]] double weights_error(const Model& model) const {
    const Isa isa = GetParam().isa;
    const bool has_tiles = isa == Isa::amx || isa == Isa::amx_software;
    const bool are_rounded = dtype() == DType::bf16 && model.head_dim % 32 == 0 &&
                             (has_tiles || isa == Isa::avx512_bf16);
    return are_rounded ? 0x1p-7 : 4e-6;
  }

  void expect_agrees(const Model& model,
                     const std::vector<Request>& requests,
                     int padding_tokens = 0) {
    expect_agrees(model, make_batch(model, requests, padding_tokens));
  }
  void expect_agrees(const Model& model, const Batch& batch) {
    const Tensor out = run(model, batch);
    const Tensor want = make_ref(result_shape(model, batch));
    attention_ref(call_of(model, batch, want));
    expect_close(out, want, 1.01 * rounding_error(dtype()), weights_error(model));
  }
};

}  // namespace reprise::kernels
