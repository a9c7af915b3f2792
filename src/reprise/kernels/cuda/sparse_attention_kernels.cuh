#pragma once

#include "reprise/kernels/cuda/attention_kernels.cuh"
#include "reprise/kernels/sparse_attention/sparse_attention_arguments.h"

// Attention of a token over the positions that it chooses, with the arguments and the grid of the
// CPU's kernel (sparse_attention.inl). Every size is fixed or comes from the batch's own lengths,
// so a captured launch serves any batch of its shape.
namespace reprise::kernels::cuda {

/// Computes one token with some of its heads, each by one warp.
template <typename T>
class SparseAttention {
 public:
  REPRISE_DEVICE SparseAttention(const SparseAttentionArguments& a, int64_t token)
      : a_(a), token_(token), candidates_(reinterpret_cast<uint64_t*>(shared_memory())) {
    while (request_ < a.num_reqs && a.query_start_loc[request_ + 1] <= token) ++request_;
    if (request_ == a.num_reqs) return;  // padding
    context_ = a.seq_lens[request_] - (a.query_start_loc[request_ + 1] - 1 - token);
  }

  /// Leaves the chosen positions in shared memory, if the token has to choose. The whole block
  /// takes part.
  REPRISE_DEVICE void choose() {
    if (!chooses()) return;
    // The smallest power of two that has room for as many new candidates as are kept. The shared
    // memory has kSparseSharedBytes.
    int64_t size = kWarpSize;
    while (size < 2 * a_.top_k) size *= 2;
    int64_t kept = 0;
    for (int64_t next = 0; next < context_;) {
      const int64_t count = min_of(size - kept, context_ - next);
      for (int64_t i = warp_index(); i < size - kept; i += num_warps()) {
        const uint64_t candidate = i < count ? candidate_of(next + i) : 0;
        if (lane_index() == 0) candidates_[kept + i] = candidate;
      }
      sync_block();
      sort(size);
      next += count;
      kept = min_of(a_.top_k, kept + count);
    }
  }

  REPRISE_DEVICE void attend(int64_t head) const {
    const T* q = static_cast<const T*>(a_.q) + token_ * a_.q_token_stride + head * a_.q_head_stride;
    AttentionRow row = {{}, kLowest, 0};
    const int64_t count = min_of(context_, a_.top_k);
    for (int64_t i = 0; i < count; ++i) {
      const T* key = row_of(chooses() ? position_of(candidates_[i]) : i);
      float score = 0;
      for (int64_t j = lane_index(); j < a_.head_dim; j += kWarpSize) {
        score = multiply_add(as_float(q[j]), as_float(key[j]), score);
      }
      score = warp_sum(score) * a_.scale;
      const float maximum = larger(score, row.largest);
      const float correction = exponential(row.largest - maximum);
      const float weight = exponential(score - maximum);
      row.largest = maximum;
      row.total = row.total * correction + weight;
      REPRISE_UNROLL
      for (int j = 0; j < AttentionRow::kMost; ++j) {
        const int64_t element = lane_index() + j * kWarpSize;
        if (element >= a_.value_dim) break;
        row.sums[j] = multiply_add(weight, as_float(key[element]), row.sums[j] * correction);
      }
    }
    T* out = static_cast<T*>(a_.out) + (token_ * a_.heads + head) * a_.value_dim;
    REPRISE_UNROLL
    for (int j = 0; j < AttentionRow::kMost; ++j) {
      const int64_t element = lane_index() + j * kWarpSize;
      if (element >= a_.value_dim) break;
      put(out + element, row.total > 0 ? row.sums[j] / row.total : 0.0F);
    }
  }

 private:
  /// Candidates are compared as integers: the score first, then the earlier position.
  static REPRISE_DEVICE int64_t position_of(uint64_t candidate) {
    return static_cast<int64_t>(~static_cast<uint32_t>(candidate));
  }
  REPRISE_DEVICE uint64_t candidate_of(int64_t position) const {
    const uint64_t score = ordered_bits(index_score(position));
    return (score << 32) | static_cast<uint32_t>(~static_cast<uint32_t>(position));
  }

  [[nodiscard]] REPRISE_DEVICE bool chooses() const { return context_ > a_.top_k; }

  REPRISE_DEVICE const T* row_of(int64_t position) const {
    const int64_t block =
        a_.block_table[request_ * a_.block_table_stride + position / a_.block_size];
    return static_cast<const T*>(a_.kv_cache) +
           (block * a_.block_size + position % a_.block_size) * (a_.head_dim + a_.index_dim);
  }

  /// The sum over the indexer's heads of weight * relu(query . key). All lanes take part.
  REPRISE_DEVICE float index_score(int64_t position) const {
    const T* key = row_of(position) + a_.head_dim;
    const T* weights = static_cast<const T*>(a_.index_weights) + token_ * a_.index_weights_stride;
    float score = 0;
    for (int64_t head = 0; head < a_.index_heads; ++head) {
      const T* query = static_cast<const T*>(a_.index_q) + token_ * a_.index_q_token_stride +
                       head * a_.index_q_head_stride;
      float product = 0;
      for (int64_t i = lane_index(); i < a_.index_dim; i += kWarpSize) {
        product = multiply_add(as_float(query[i]), as_float(key[i]), product);
      }
      product = warp_sum(product);
      score += as_float(weights[head]) * (product > 0 ? product : 0.0F);
    }
    return score;
  }

  /// Sorts the first `size` candidates, the best first: a bitonic sort. \pre size is a power of two
  REPRISE_DEVICE void sort(int64_t size) const {
    for (int64_t run = 2; run <= size; run *= 2) {
      for (int64_t distance = run / 2; distance > 0; distance /= 2) {
        for (int64_t pair = thread_index(); pair < size / 2; pair += num_threads()) {
          const int64_t low = pair / distance * distance * 2 + pair % distance;
          const int64_t high = low + distance;
          const bool descends = (low & run) == 0;
          const uint64_t first = candidates_[low];
          const uint64_t second = candidates_[high];
          if ((first < second) != descends) continue;
          candidates_[low] = second;
          candidates_[high] = first;
        }
        sync_block();
      }
    }
  }

  const SparseAttentionArguments& a_;
  int64_t token_;
  uint64_t* candidates_;
  int64_t request_ = 0;
  int64_t context_ = 0;
};

template <typename T>
REPRISE_DEVICE void sparse_attention(const SparseAttentionArguments& a) {
  SparseAttention<T> attention(a, block_index() / a.blocks_per_token);
  attention.choose();
  const int64_t first_head = block_index() % a.blocks_per_token * kSparseHeads;
  const int64_t last_head = min_of(first_head + kSparseHeads, a.heads);
  for (int64_t head = first_head + warp_index(); head < last_head; head += num_warps()) {
    attention.attend(head);
  }
}

}  // namespace reprise::kernels::cuda
