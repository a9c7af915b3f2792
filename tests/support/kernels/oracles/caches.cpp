#include "tests/support/kernels/oracles/caches.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "tests/support/kernels/reference.h"

namespace reprise::kernels {
namespace {

// The codes and, where the row has one, the scale of one row.
void write_row_ref(const Tensor& cache,
                   const Tensor& x,
                   const std::array<int64_t, 2>& from,
                   const std::array<int64_t, 3>& to,
                   float scale) {
  const int64_t head_dim = x.size(2);
  const bool has_row_scale = cache.size(3) > head_dim;
  if (has_row_scale) {
    float largest = 1e-10F;
    for (int64_t i = 0; i < head_dim; ++i) {
      const auto magnitude = static_cast<float>(std::abs(element(x, from[0], from[1], i)));
      if (magnitude > largest || std::isnan(magnitude)) largest = magnitude;
    }
    const float largest_code =
        cache.dtype() == DType::i8 ? 127.0F : (cache.dtype() == DType::f8e4m3 ? 448.0F : 57344.0F);
    scale = largest / largest_code;
  }
  for (int64_t i = 0; i < head_dim; ++i) {
    const auto value = static_cast<float>(element(x, from[0], from[1], i));
    const float code = cache.dtype() == x.dtype() ? value : value / scale;
    set_element(cache, code, to[0], to[1], to[2], i);
  }
  if (!has_row_scale) return;
  const int64_t row = (to[0] * cache.size(1) + to[1]) * cache.size(2) + to[2];
  std::memcpy(cache.data_as<char>() + row * cache.size(3) + head_dim, &scale, sizeof scale);
}

// The positions that one token of one head attends to.
struct RefRow {
  int64_t request;
  int64_t token;
  int64_t head;
  int64_t context;
};

// Returns the first position and one past the last position.
std::pair<int64_t, int64_t> seen_positions(const AttentionCall& call, const RefRow& row) {
  const int64_t own = row.context;
  if (call.chunk_size > 0) {
    return {std::max<int64_t>(0, own - 1) / call.chunk_size * call.chunk_size, own};
  }
  if (call.sliding_window == 0) return {0, own};
  const int64_t begin = std::max<int64_t>(0, own - call.sliding_window);
  if (!call.is_bidirectional || own == 0) return {begin, own};  // 0: the token only pads a batch
  return {begin, std::min(int_element(call.seq_lens, row.request), own + call.sliding_window - 1)};
}

void attention_row_ref(const AttentionCall& call, const RefRow& row) {
  const int64_t head_dim = call.q.size(2);
  const int64_t value_dim = call.out.size(2);
  const int64_t kv_head = row.head / (call.q.size(1) / call.key_cache.size(1));
  const int64_t block_size = call.key_cache.size(2);
  const auto [begin, end] = seen_positions(call, row);
  const auto block = [&](int64_t position) {
    return int_element(call.block_table, row.request, position / block_size);
  };

  std::vector<double> query;
  for (int64_t i = 0; i < head_dim; ++i) query.push_back(element(call.q, row.token, row.head, i));
  std::vector<double> scores;
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t position = begin; position < end; ++position) {
    const int64_t in_block = block(position);
    const std::vector<double> key = cache_row(
        call.key_cache, head_dim, call.scales.k, {in_block, kv_head, position % block_size});
    double score = 0;
    for (size_t i = 0; i < query.size(); ++i) score += query[i] * key[i];
    if (call.biases != nullptr) score += element(*call.biases, row.head, position);
    score *= call.scale;
    if (call.soft_cap > 0) score = call.soft_cap * std::tanh(score / call.soft_cap);
    scores.push_back(score);
    largest = std::max(largest, scores.back());
  }
  double total = 0;
  if (call.sinks != nullptr) {
    const double sink = element(*call.sinks, row.head);
    largest = std::max(largest, sink);
    total = std::exp(sink - largest);
  }
  for (double& score : scores) total += score = std::exp(score - largest);
  std::vector<double> sums(static_cast<size_t>(value_dim), 0.0);
  for (int64_t position = begin; position < end; ++position) {
    const int64_t in_block = block(position);
    const double score = scores[static_cast<size_t>(position - begin)];
    const std::vector<double> value = cache_row(
        call.value_cache, head_dim, call.scales.v, {in_block, kv_head, position % block_size});
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += score * value[i];
  }
  for (int64_t i = 0; i < value_dim; ++i) {
    const double sum = sums[static_cast<size_t>(i)];
    set_element(call.out, scores.empty() ? 0.0 : sum / total, row.token, row.head, i);
  }
}

}  // namespace

std::vector<double> cache_row(const Tensor& cache,
                              int64_t head_dim,
                              float scale,
                              const RowIndex& index) {
  std::vector<double> row = row_elements(cache, index);
  if (cache.size(3) > head_dim) {
    const int64_t n = (index.i * cache.size(1) + index.j) * cache.size(2) + index.k;
    std::memcpy(&scale, cache.data_as<char>() + n * cache.size(3) + head_dim, sizeof scale);
  }
  if (dtype_bytes(cache.dtype()) == 1) {
    for (double& element : row) element *= scale;
  }
  return row;
}

void kv_write_ref(const Tensor& k,
                  const Tensor& v,
                  const Tensor& key_cache,
                  const Tensor& value_cache,
                  const Tensor& slot_mapping,
                  const CacheScales& scales) {
  const int64_t block_size = key_cache.size(2);
  for (int64_t token = 0; token < k.size(0); ++token) {
    const int64_t slot = int_element(slot_mapping, token);
    if (slot < 0 || slot >= key_cache.size(0) * block_size) continue;
    for (int64_t head = 0; head < k.size(1); ++head) {
      const std::array to{slot / block_size, head, slot % block_size};
      write_row_ref(key_cache, k, {token, head}, to, scales.k);
      write_row_ref(value_cache, v, {token, head}, to, scales.v);
    }
  }
}

void concat_and_cache_mla_ref(const Tensor& kv_c,
                              const Tensor& k_pe,
                              const Tensor& kv_cache,
                              const Tensor& slot_mapping) {
  const int64_t block_size = kv_cache.size(2);
  const int64_t latent_size = kv_c.size(1);
  for (int64_t token = 0; token < kv_c.size(0); ++token) {
    const int64_t slot = int_element(slot_mapping, token);
    if (slot < 0 || slot >= kv_cache.size(0) * block_size) continue;
    for (int64_t i = 0; i < kv_cache.size(3); ++i) {
      const double value =
          i < latent_size ? element(kv_c, token, i) : element(k_pe, token, 0, i - latent_size);
      set_element(kv_cache, value, slot / block_size, 0, slot % block_size, i);
    }
  }
}

void attention_ref(const AttentionCall& call) {
  const int64_t num_reqs = call.seq_lens.size(0);
  for (int64_t token = 0; token < call.q.size(0); ++token) {
    for (int64_t head = 0; head < call.q.size(1); ++head) {
      RefRow row = {.request = 0, .token = token, .head = head, .context = 0};
      for (int64_t r = 0; r < num_reqs; ++r) {
        const int64_t begin = int_element(call.query_start_loc, r);
        const int64_t end = int_element(call.query_start_loc, r + 1);
        if (token < begin || token >= end) continue;
        row.request = r;
        const bool sees_all = call.is_bidirectional && call.sliding_window == 0;
        const int64_t later_tokens = sees_all ? 0 : end - token - 1;
        row.context = std::max<int64_t>(0, int_element(call.seq_lens, r) - later_tokens);
      }
      attention_row_ref(call, row);
    }
  }
}

}  // namespace reprise::kernels
