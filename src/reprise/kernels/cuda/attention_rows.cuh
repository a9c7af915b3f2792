#pragma once

#include "reprise/kernels/cuda/activation_kernels.cuh"
#include "reprise/kernels/cuda/attention_tile.cuh"
#include "reprise/kernels/cuda/cache_codes.cuh"
#include "reprise/kernels/cuda/head_part.cuh"

namespace reprise::kernels::cuda {

inline constexpr float kLowest = -1e30F;  // stands for minus infinity, and subtracts to 0
inline constexpr float kLog2E = 1.4426950408889634F;

/// Sixteen rows of one warp and their partial results, in fragments of the tensor cores. Lane = 4 *
/// group + member holds rows `group` and `group + 8`.
///
/// The cache holds elements of type T, or codes of eight bits, which become elements of type T
/// where a product needs them. Scores and weights carry the scales of codes.
template <typename T, int kHeadDim, CacheElements kCache = CacheElements::of_model>
struct AttentionRows {
  using Words = HeadPart<kHeadDim, kCache == CacheElements::codes ? 1 : 2>;
  static constexpr int kProducts = kHeadDim / 16;  // with the keys: sixteen elements each
  static constexpr int kTiles = kHeadDim / 8;      // of the product with the values
  // Wider queries, keys and values do not fit into the registers all at once.
  static constexpr bool kIsWide = kHeadDim > 128;
  static constexpr int kQueryWords = kIsWide ? 1 : kHeadDim / 8;
  // Weights times scales of rows would be too small for float16.
  static constexpr float kWeightFactor = __is_same(T, Float16) ? 64.0F : 1.0F;

  const AttentionKernelArguments& a;
  // Numbers of 32 bits save registers.
  int request;
  int kv_head;
  int lowest;  // positions that at least one row sees: [lowest, highest)
  int highest;
  int context[2];
  int window_begin[2];
  uint32_t query[2];  // the places of the queries: elements from a.q on
  uint32_t q[2][kQueryWords];
  float sums[kTiles][4];  // see HeadPart::for_each_element()
  float largest[2];       // of the scores, times log2(e)
  float totals[2];        // only of this lane's positions

  REPRISE_DEVICE AttentionRows(const AttentionKernelArguments& arguments,
                               const AttentionTile& tile,
                               int64_t head,
                               int64_t first_row)
      : a(arguments), request(static_cast<int>(tile.r.request)), kv_head(static_cast<int>(head)) {
    const int64_t end = tile.first_row + tile.num_rows;
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int64_t row = first_row + lane_index() / 4 + half * 8;
      const bool exists = row < end;
      const int64_t token = divide(row, a.group_size).quotient;
      context[half] = exists ? static_cast<int>(max_of(0, context_of(tile.r, token))) : 0;
      window_begin[half] = static_cast<int>(window_begin_of(a, context[half]));
      load_query(tile, exists ? row : tile.first_row, half);
      largest[half] = kLowest;
      totals[half] = 0;
    }
    const int64_t last_row = min_of(first_row + kAttentionWarpRows, end) - 1;
    const auto context_at = [&](int64_t row) {
      return max_of(0, context_of(tile.r, divide(row, a.group_size).quotient));
    };
    highest = last_row < first_row ? 0 : static_cast<int>(context_at(last_row));
    lowest = highest == 0 ? 0 : static_cast<int>(window_begin_of(a, context_at(first_row)));
    REPRISE_UNROLL
    for (int tile_of_sums = 0; tile_of_sums < kTiles; ++tile_of_sums) {
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) sums[tile_of_sums][i] = 0;
    }
  }

  /// Each row begins with one more score, that of its head's sink, whose value is 0.
  REPRISE_DEVICE void add_sinks(const AttentionTile& tile, int64_t first_row) {
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int64_t row = first_row + lane_index() / 4 + half * 8;
      if (row >= tile.first_row + tile.num_rows) continue;
      const T* sinks = static_cast<const T*>(a.sinks) + kv_head * a.group_size;
      largest[half] = as_float(sinks[row % a.group_size]) * kLog2E;
      totals[half] = lane_index() % 4 == 0 ? 1.0F : 0.0F;
    }
  }

  /// Adds sixteen positions. \pre lowest < highest
  REPRISE_DEVICE void attend(int first) {
    const int group = lane_index() / 4;
    const int member = lane_index() % 4;
    uint32_t key_rows[2];
    REPRISE_UNROLL
    for (int tile = 0; tile < 2; ++tile) key_rows[tile] = row_at(first + tile * 8 + group);
    uint32_t value_rows[4];
    REPRISE_UNROLL
    for (int i = 0; i < 4; ++i) {
      value_rows[i] = row_at(first + i / 2 * 8 + member * 2 + i % 2);
    }
    float scores[2][4] = {};
    uint32_t weights[4];
    const PositionScales scales = scales_at(value_rows);
    if constexpr (kIsWide) {
      multiply_wide_keys(scores, key_rows);
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) weigh(weights, scores, half, first, scales);
      add_wide_values(weights, value_rows);
    } else {
      uint32_t keys[2][Words::kKeyWords];
      REPRISE_UNROLL
      for (int tile = 0; tile < 2; ++tile) {
        Words::load_key(keys[tile], bytes_at(a.key_cache, key_rows[tile]));
      }
      // The values are loaded together with the keys, so that the scores hide their latency.
      uint32_t values[4][Words::kValueWords];
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) {
        Words::load_value(values[i], bytes_at(a.value_cache, value_rows[i]));
      }
      multiply_keys(scores, keys);
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) weigh(weights, scores, half, first, scales);
      REPRISE_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) add_values(sums[tile], tile, weights, values);
    }
  }

  /// Writes sums, largest and total of each row to `rows`: [16][kHeadDim + 2].
  REPRISE_DEVICE void leave_in(float* rows) const {
    const int group = lane_index() / 4;
    const int member = lane_index() % 4;
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float* row = rows + (group + half * 8) * (kHeadDim + 2);
      REPRISE_UNROLL
      for (int i = 0; i < 2; ++i) {
        Words::for_each_element(member * 2 + i, [&](int tile, int element) {
          const float sum = sums[tile][half * 2 + i];
          row[element] = kHasCodes ? sum * value_factor() : sum;
        });
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
  static constexpr bool kHasCodes = kCache == CacheElements::codes;

  REPRISE_DEVICE void load_query(const AttentionTile& tile, int64_t row, int half) {
    const Divided place = divide(row, a.group_size);  // token, head of the group
    query[half] = static_cast<uint32_t>((tile.r.first_token + place.quotient) * a.q_token_stride +
                                        (kv_head * a.group_size + place.rest) * a.q_head_stride);
    if constexpr (!kIsWide) HeadPart<kHeadDim, 2>::load_key(q[half], query_at(half, 0));
  }
  REPRISE_DEVICE const char* query_at(int half, int element) const {
    return reinterpret_cast<const char*>(static_cast<const T*>(a.q) + query[half] + element);
  }

  /// The index of the cache row of a position, or of the nearest position that a row sees: other
  /// rows must not be read. A layer has fewer than 2^32 rows.
  REPRISE_DEVICE uint32_t row_at(int position) const {
    const int below = position < highest - 1 ? position : highest - 1;
    const int seen = below > lowest ? below : lowest;
    return static_cast<uint32_t>(cache_row_index(a, request, kv_head, seen));
  }
  REPRISE_DEVICE const char* bytes_at(const void* cache, uint32_t row) const {
    const auto row_bytes =
        static_cast<uint32_t>(kHasCodes ? a.cache.row_bytes : kHeadDim * int64_t{sizeof(T)});
    return static_cast<const char*>(cache) + uint64_t{row} * row_bytes;
  }

  /// The words that a product takes from `words`, for its sixteen elements.
  REPRISE_DEVICE void take_keys(uint32_t (&right)[2], const uint32_t* words, int product) const {
    if constexpr (kHasCodes) {
      const uint32_t codes = words[product];
      right[0] = widen_pair<T>(permute_bytes(codes, codes, 0x1000U), a.cache.type);
      right[1] = widen_pair<T>(permute_bytes(codes, codes, 0x3020U), a.cache.type);
    } else {
      right[0] = words[product * 2];
      right[1] = words[product * 2 + 1];
    }
  }

  REPRISE_DEVICE void multiply_keys(float (&scores)[2][4],
                                    const uint32_t (&keys)[2][Words::kKeyWords]) const {
    REPRISE_UNROLL
    for (int tile = 0; tile < 2; ++tile) {
      REPRISE_UNROLL
      for (int product = 0; product < kProducts; ++product) {
        const uint32_t left[4] = {
            q[0][product * 2], q[1][product * 2], q[0][product * 2 + 1], q[1][product * 2 + 1]};
        uint32_t right[2];
        take_keys(right, keys[tile], product);
        multiply_fragments<T>(scores[tile], left, right);
      }
    }
  }

  /// Loads queries and keys piece by piece. The queries are in the first-level cache.
  REPRISE_DEVICE void multiply_wide_keys(float (&scores)[2][4], const uint32_t (&rows)[2]) const {
    REPRISE_UNROLL_BY_2
    for (int step = 0; step < kHeadDim / 32; ++step) {
      uint32_t left_words[2][4];
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        load_lane_words<16, 16>(query_at(half, step * 32 + lane_index() % 4 * 8), left_words[half]);
      }
      REPRISE_UNROLL
      for (int tile = 0; tile < 2; ++tile) {
        uint32_t keys[kHasCodes ? 2 : 4];
        Words::load_key_step(keys, bytes_at(a.key_cache, rows[tile]), step);
        REPRISE_UNROLL
        for (int product = 0; product < 2; ++product) {
          const uint32_t left[4] = {left_words[0][product * 2],
                                    left_words[1][product * 2],
                                    left_words[0][product * 2 + 1],
                                    left_words[1][product * 2 + 1]};
          uint32_t right[2];
          take_keys(right, keys, product);
          multiply_fragments<T>(scores[tile], left, right);
        }
      }
    }
  }

  /// The factors of the scores and the weights of four positions of a cache of codes.
  struct PositionScales {
    float key[kHasCodes ? 4 : 1];
    float weight[kHasCodes ? 4 : 1];
  };
  REPRISE_DEVICE PositionScales scales_at(const uint32_t (&rows)[4]) const {
    PositionScales scales = {};
    if constexpr (kHasCodes) {
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) {
        scales.key[i] = a.cache.k_scale;
        scales.weight[i] = 1;
        if (a.cache.has_row_scales == 0) continue;
        scales.key[i] = float_of(load_word(bytes_at(a.key_cache, rows[i]) + kHeadDim));
        scales.weight[i] =
            float_of(load_word(bytes_at(a.value_cache, rows[i]) + kHeadDim)) * kWeightFactor;
      }
    }
    return scales;
  }
  /// The factor that is left for the sums of a cache of codes.
  REPRISE_DEVICE float value_factor() const {
    return a.cache.has_row_scales == 0 ? a.cache.v_scale : 1 / kWeightFactor;
  }

  /// Converts the scores of one half of the rows to weights, relative to the largest score so far,
  /// and scales what was summed before. `scales`: of the lane's four positions.
  REPRISE_DEVICE void weigh(uint32_t (&packed)[4],
                            float (&scores)[2][4],
                            int half,
                            int first,
                            const PositionScales& scales) {
    const int member = lane_index() % 4;
    float maximum = largest[half];
    REPRISE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int position = first + i / 2 * 8 + member * 2 + i % 2;
      float& score = scores[i / 2][half * 2 + i % 2];
      if constexpr (kHasCodes) score *= scales.key[i];
      const bool is_seen = position < context[half] && position >= window_begin[half];
      score = is_seen ? exponent_of(score) : 2 * kLowest;
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
      if constexpr (kHasCodes) score *= scales.weight[i];
    }
    totals[half] = totals[half] * correction + total;
    REPRISE_UNROLL
    for (int tile = 0; tile < 2; ++tile) {
      packed[tile * 2 + half] = pack<T>(scores[tile][half * 2], scores[tile][half * 2 + 1]);
    }
    REPRISE_UNROLL
    for (int tile = 0; tile < kTiles; ++tile) {
      sums[tile][half * 2] *= correction;
      sums[tile][half * 2 + 1] *= correction;
    }
  }
  /// The exponent of 2 in the weight of a product of a query and a key.
  REPRISE_DEVICE float exponent_of(float product) const {
    if (a.soft_cap > 0) return soft_capped(product * a.scale, a.soft_cap) * kLog2E;
    return product * (a.scale * kLog2E);
  }

  /// Adds a tile of eight columns. `values`: of four positions; the tile is the index-th in them.
  template <int kCount>
  REPRISE_DEVICE void add_values(float (&tile_sums)[4],
                                 int index,
                                 const uint32_t (&packed)[4],
                                 const uint32_t (&values)[4][kCount]) const {
    uint32_t right[2];
    REPRISE_UNROLL
    for (int i = 0; i < 2; ++i) {
      // Joins the elements of two neighbouring positions.
      const uint32_t (&one)[kCount] = values[i * 2];
      const uint32_t (&next)[kCount] = values[i * 2 + 1];
      if constexpr (kHasCodes) {
        const uint32_t byte = index % 4;
        const uint32_t selector = ((4 + byte) << 12) | (byte << 4);
        right[i] =
            widen_pair<T>(permute_bytes(one[index / 4], next[index / 4], selector), a.cache.type);
      } else {
        right[i] =
            permute_bytes(one[index / 2], next[index / 2], index % 2 == 0 ? 0x5410U : 0x7632U);
      }
    }
    multiply_fragments<T>(tile_sums, packed, right);
  }

  /// The values are loaded 64 columns at a time.
  REPRISE_DEVICE void add_wide_values(const uint32_t (&packed)[4], const uint32_t (&rows)[4]) {
    REPRISE_UNROLL
    for (int chunk = 0; chunk < kHeadDim / 64; ++chunk) {
      uint32_t values[4][kHasCodes ? 2 : 4];
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) {
        Words::load_value_chunk(values[i], bytes_at(a.value_cache, rows[i]), chunk);
      }
      REPRISE_UNROLL
      for (int j = 0; j < 8; ++j) add_values(sums[chunk * 8 + j], j, packed, values);
    }
  }
};

}  // namespace reprise::kernels::cuda
