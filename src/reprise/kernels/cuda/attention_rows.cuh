#pragma once

#include "reprise/kernels/cuda/attention_tile.cuh"

namespace reprise::kernels::cuda {

inline constexpr float kLowest = -1e30F;  // stands for minus infinity, and subtracts to 0
inline constexpr float kLog2E = 1.4426950408889634F;

/// Sixteen rows of one warp and their partial results, in fragments of the tensor cores. Lane = 4 *
/// group + member holds rows `group` and `group + 8`.
template <typename T, int kHeadDim>
struct AttentionRows {
  static constexpr int kSteps = kHeadDim / 32;   // of a matrix product with the keys
  static constexpr int kChunks = kHeadDim / 64;  // of the matrix product with the values

  const AttentionKernelArguments& a;
  int64_t request;
  int64_t kv_head;
  int64_t lowest;  // positions that at least one row sees: [lowest, highest)
  int64_t highest;
  int64_t context[2];
  int64_t window_begin[2];
  Words4 q[2][kSteps];
  float sums[kChunks][8][4];  // element d = 64 * chunk + 8 * column + tile of a row
  float largest[2];           // of the scores, times log2(e)
  float totals[2];            // only of this lane's positions

  REPRISE_DEVICE AttentionRows(const AttentionKernelArguments& arguments,
                               const AttentionTile& tile,
                               int64_t head,
                               int64_t first_row)
      : a(arguments), request(tile.r.request), kv_head(head) {
    const Words4 zeros = {{0, 0, 0, 0}};
    const int64_t end = tile.first_row + tile.num_rows;
    const int member = lane_index() % 4;
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int64_t row = first_row + lane_index() / 4 + half * 8;
      const bool exists = row < end;
      const int64_t token = row / a.group_size;
      context[half] = exists ? max_of(0, context_of(tile.r, token)) : 0;
      window_begin[half] = window_begin_of(a, context[half]);
      const T* x = static_cast<const T*>(a.q) + (tile.r.first_token + token) * a.q_token_stride +
                   (kv_head * a.group_size + row % a.group_size) * a.q_head_stride;
      REPRISE_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        q[half][step] = exists ? load_words(x + step * 32 + member * 8) : zeros;
      }
      largest[half] = kLowest;
      totals[half] = 0;
    }
    const int64_t last_row = min_of(first_row + kAttentionWarpRows, end) - 1;
    highest = last_row < first_row ? 0 : max_of(0, context_of(tile.r, last_row / a.group_size));
    lowest = highest == 0
                 ? 0
                 : window_begin_of(a, max_of(0, context_of(tile.r, first_row / a.group_size)));
    REPRISE_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      REPRISE_UNROLL
      for (int j = 0; j < 8; ++j) {
        REPRISE_UNROLL
        for (int i = 0; i < 4; ++i) sums[chunk][j][i] = 0;
      }
    }
  }

  /// The cache row of a position, or of the nearest position that a row sees: other rows must not
  /// be read.
  REPRISE_DEVICE const T* row_of(const void* cache, int64_t position) const {
    return cache_row<T>(a, cache, request, kv_head, max_of(lowest, min_of(position, highest - 1)));
  }

  /// Adds sixteen positions. \pre lowest < highest
  REPRISE_DEVICE void attend(int64_t first) {
    Words4 keys[2][kSteps];
    load_keys(keys, first);
    // The values are loaded together with the keys, so that the scores hide their latency.
    Words4 values[4][kChunks];
    load_values(values, first);
    float scores[2][4] = {};
    multiply_keys(scores, keys);
    uint32_t weights[4];
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) weigh(weights, scores, half, first);
    add_values(weights, values);
  }

  /// Writes sums, largest and total of each row to `rows`: [16][kHeadDim + 2].
  REPRISE_DEVICE void leave_in(float* rows) const {
    const int group = lane_index() / 4;
    const int member = lane_index() % 4;
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float* row = rows + (group + half * 8) * (kHeadDim + 2);
      REPRISE_UNROLL
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        REPRISE_UNROLL
        for (int j = 0; j < 8; ++j) {
          REPRISE_UNROLL
          for (int i = 0; i < 2; ++i) {
            row[chunk * 64 + (member * 2 + i) * 8 + j] = sums[chunk][j][half * 2 + i];
          }
        }
      }
      float total = totals[half];
      total += shuffle_xor(total, 1);
      total += shuffle_xor(total, 2);
      if (member == 0) {
        row[kHeadDim] = largest[half];
        row[kHeadDim + 1] = total;
      }
    }
  }

 private:
  REPRISE_DEVICE void load_keys(Words4 (&keys)[2][kSteps], int64_t first) const {
    const int group = lane_index() / 4;
    const int member = lane_index() % 4;
    REPRISE_UNROLL
    for (int tile = 0; tile < 2; ++tile) {
      const T* key = row_of(a.key_cache, first + tile * 8 + group);
      REPRISE_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        keys[tile][step] = load_words(key + step * 32 + member * 8);
      }
    }
  }

  REPRISE_DEVICE void load_values(Words4 (&values)[4][kChunks], int64_t first) const {
    const int group = lane_index() / 4;
    const int member = lane_index() % 4;
    REPRISE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const T* value = row_of(a.value_cache, first + i / 2 * 8 + member * 2 + i % 2);
      REPRISE_UNROLL
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        values[i][chunk] = load_words(value + chunk * 64 + group * 8);
      }
    }
  }

  REPRISE_DEVICE void multiply_keys(float (&scores)[2][4], const Words4 (&keys)[2][kSteps]) const {
    REPRISE_UNROLL
    for (int tile = 0; tile < 2; ++tile) {
      REPRISE_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        REPRISE_UNROLL
        for (int i = 0; i < 4; i += 2) {
          const uint32_t left[4] = {q[0][step].word[i],
                                    q[1][step].word[i],
                                    q[0][step].word[i + 1],
                                    q[1][step].word[i + 1]};
          const uint32_t right[2] = {keys[tile][step].word[i], keys[tile][step].word[i + 1]};
          multiply_fragments<T>(scores[tile], left, right);
        }
      }
    }
  }

  /// Converts the scores of one half of the rows to weights, relative to the largest score so far,
  /// and scales what was summed before.
  REPRISE_DEVICE void weigh(uint32_t (&packed)[4], float (&scores)[2][4], int half, int64_t first) {
    const int member = lane_index() % 4;
    float maximum = largest[half];
    REPRISE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int64_t position = first + i / 2 * 8 + member * 2 + i % 2;
      float& score = scores[i / 2][half * 2 + i % 2];
      const bool is_seen = position < context[half] && position >= window_begin[half];
      score = is_seen ? score * (a.scale * kLog2E) : 2 * kLowest;
      maximum = score > maximum ? score : maximum;
    }
    for (int mask = 1; mask <= 2; mask *= 2) {
      const float other = shuffle_xor(maximum, mask);
      maximum = other > maximum ? other : maximum;
    }
    const float correction = exponential_2(largest[half] - maximum);
    largest[half] = maximum;
    float total = 0;
    REPRISE_UNROLL
    for (int i = 0; i < 4; ++i) {
      float& score = scores[i / 2][half * 2 + i % 2];
      score = exponential_2(score - maximum);
      total += score;
    }
    totals[half] = totals[half] * correction + total;
    REPRISE_UNROLL
    for (int tile = 0; tile < 2; ++tile) {
      packed[tile * 2 + half] = pack<T>(scores[tile][half * 2], scores[tile][half * 2 + 1]);
    }
    REPRISE_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      REPRISE_UNROLL
      for (int j = 0; j < 8; ++j) {
        sums[chunk][j][half * 2] *= correction;
        sums[chunk][j][half * 2 + 1] *= correction;
      }
    }
  }

  REPRISE_DEVICE void add_values(const uint32_t (&packed)[4], const Words4 (&values)[4][kChunks]) {
    REPRISE_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      REPRISE_UNROLL
      for (int j = 0; j < 8; ++j) {
        // Joins the j-th elements of two neighbouring positions.
        const uint32_t halves = j % 2 == 0 ? 0x5410U : 0x7632U;
        const uint32_t right[2] = {
            permute_bytes(values[0][chunk].word[j / 2], values[1][chunk].word[j / 2], halves),
            permute_bytes(values[2][chunk].word[j / 2], values[3][chunk].word[j / 2], halves)};
        multiply_fragments<T>(sums[chunk][j], packed, right);
      }
    }
  }
};

}  // namespace reprise::kernels::cuda
