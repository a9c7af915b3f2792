#pragma once

#include "reprise/kernels/cuda/attention_rows.cuh"
#include "reprise/kernels/cuda/prefill_stream.cuh"

namespace reprise::kernels::cuda {

/// Two fragments of sixteen rows of one warp, and their partial results. Lane = 4 * group + member
/// holds rows `group` and `group + 8` of each fragment.
template <typename T, int kHeadDim>
class PrefillRows {
 public:
  using Rows = SharedRows<kHeadDim>;

  /// \pre a.scale > 0
  REPRISE_DEVICE PrefillRows(const AttentionKernelArguments& a, const PrefillTile& tile)
      : a_(a), tile_(tile) {
    const int first_row = warp_index() * kPrefillWarpRows;
    const bool has_rows = first_row < tile.num_rows;
    first_context_ = context_of(first_row);
    last_context_ = has_rows ? context_of(first_row + kPrefillWarpRows - 1) : 0;
    REPRISE_UNROLL
    for (int fragment = 0; fragment < 2; ++fragment) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        largest_[fragment][half] = kLowest;
        totals_[fragment][half] = 0;
      }
    }
  }

  /// Whether at least one row sees at least one of the tile's positions.
  [[nodiscard]] REPRISE_DEVICE bool sees(int first) const {
    return first < last_context_ &&
           (a_.sliding_window == 0 || first + kPositions > first_context_ - a_.sliding_window);
  }

  /// Computes the weights of the tile's positions from their keys.
  REPRISE_DEVICE void score(const Rows& queries, const Rows& keys, int first) {
    const int lane = lane_index();
    float scores[2][kTiles][4] = {};
    const FragmentAddress query(queries, warp_index() * kPrefillWarpRows + lane % 16, lane / 16);
    const FragmentAddress key(keys, lane / 16 * 8 + lane % 8, lane / 8 % 2);
    REPRISE_UNROLL_BY_4  // a complete unrolling of 128 elements needs too many registers
        for (int step = 0; step < kHeadDim / 16; ++step) {
      uint32_t left[2][4];
      REPRISE_UNROLL
      for (int fragment = 0; fragment < 2; ++fragment) {
        load_fragments(left[fragment], query.at<kHeadDim>(fragment * 16, step));
      }
      REPRISE_UNROLL
      for (int tile = 0; tile < kTiles; tile += 2) {
        uint32_t right[4];
        load_fragments(right, key.at<kHeadDim>(tile * 8, step));
        multiply(scores, tile, left, right);
      }
    }
    const int seen_by_all = first_context_ < tile_.end ? first_context_ : tile_.end;
    const bool has_unseen = first + kPositions > seen_by_all ||
                            (a_.sliding_window > 0 && first < last_context_ - a_.sliding_window);
    if (has_unseen) hide_unseen(scores, first);
    weigh(scores);
  }

  /// Adds the values of the positions of the last score() call.
  REPRISE_DEVICE void add(const Rows& values) {
    const FragmentAddress value(values, lane_index() % 16, lane_index() / 16);
    REPRISE_UNROLL
    for (int step = 0; step < kPositions / 16; ++step) {
      uint32_t left[2][4];
      REPRISE_UNROLL
      for (int fragment = 0; fragment < 2; ++fragment) {
        REPRISE_UNROLL
        for (int i = 0; i < 4; ++i) left[fragment][i] = weights_[fragment][step * 2 + i / 2][i % 2];
      }
      REPRISE_UNROLL
      for (int column = 0; column < kColumnTiles; column += 2) {
        uint32_t right[4];
        load_fragments_transposed(right, value.at<kHeadDim>(step * 16, column / 2));
        multiply(sums_, column, left, right);
      }
    }
  }

  /// Adds up the sums of the four lanes of a row, each over its own positions.
  REPRISE_DEVICE void finish() {
    REPRISE_UNROLL
    for (int fragment = 0; fragment < 2; ++fragment) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        float& total = totals_[fragment][half];
        total += shuffle_xor(total, 1);
        total += shuffle_xor(total, 2);
      }
    }
  }

  /// Writes the results of the warp's rows to `to`.
  REPRISE_DEVICE void leave_results(const Rows& to) const {
    REPRISE_UNROLL
    for (int fragment = 0; fragment < 2; ++fragment) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float total = totals_[fragment][half];
        const float factor = total == 0 ? 0 : 1 / total;
        REPRISE_UNROLL
        for (int column = 0; column < kColumnTiles; ++column) {
          const float (&pair)[4] = sums_[fragment][column];
          auto* place = reinterpret_cast<uint32_t*>(to.chunk(row_of(fragment, half), column));
          place[lane_index() % 4] = pack<T>(pair[half * 2] * factor, pair[half * 2 + 1] * factor);
        }
      }
    }
  }

  /// Writes sums, largest and total of each of the tile's rows to `part`: [rows][kHeadDim + 2].
  REPRISE_DEVICE void leave_part(float* part) const {
    const int member = lane_index() % 4;
    REPRISE_UNROLL
    for (int fragment = 0; fragment < 2; ++fragment) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = row_of(fragment, half);
        if (row >= tile_.num_rows) continue;
        float* place = part + row * (kHeadDim + 2);
        REPRISE_UNROLL
        for (int column = 0; column < kColumnTiles; ++column) {
          REPRISE_UNROLL
          for (int i = 0; i < 2; ++i) {
            place[column * 8 + member * 2 + i] = sums_[fragment][column][half * 2 + i];
          }
        }
        if (member == 0) {
          place[kHeadDim] = largest_[fragment][half] * exponent_of_one();
          place[kHeadDim + 1] = totals_[fragment][half];
        }
      }
    }
  }

 private:
  static constexpr int kPositions = prefill_positions(kHeadDim);
  static constexpr int kTiles = kPositions / 8;
  static constexpr int kColumnTiles = kHeadDim / 8;

  [[nodiscard]] static REPRISE_DEVICE int row_of(int fragment, int half) {
    return warp_index() * kPrefillWarpRows + fragment * 16 + half * 8 + lane_index() / 4;
  }

  /// The exponent of 2 for a score of one: its weight relative to a score of zero.
  [[nodiscard]] REPRISE_DEVICE float exponent_of_one() const { return a_.scale * kLog2E; }

  /// Two neighbouring tiles of eight columns, for both fragments of rows.
  template <int kCount>
  static REPRISE_DEVICE void multiply(float (&sums)[2][kCount][4],
                                      int tile,
                                      const uint32_t (&left)[2][4],
                                      const uint32_t (&right)[4]) {
    REPRISE_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint32_t column[2] = {right[i * 2], right[i * 2 + 1]};
      REPRISE_UNROLL
      for (int fragment = 0; fragment < 2; ++fragment) {
        multiply_fragments<T>(sums[fragment][tile + i], left[fragment], column);
      }
    }
  }

  /// A row after the tile's last row gets the last row's value.
  [[nodiscard]] REPRISE_DEVICE int context_of(int row) const {
    return tile_.context_of(row < tile_.num_rows ? row : tile_.num_rows - 1,
                            static_cast<int>(a_.group_size));
  }

  REPRISE_DEVICE void hide_unseen(float (&scores)[2][kTiles][4], int first) const {
    REPRISE_UNROLL
    for (int fragment = 0; fragment < 2; ++fragment) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int context = context_of(row_of(fragment, half));
        const int limit = context < tile_.end ? context : tile_.end;
        const auto window_begin = static_cast<int>(window_begin_of(a_, context));
        REPRISE_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          REPRISE_UNROLL
          for (int i = 0; i < 2; ++i) {
            const int position = first + tile * 8 + lane_index() % 4 * 2 + i;
            const bool is_seen = position < limit && position >= window_begin;
            float& score = scores[fragment][tile][half * 2 + i];
            score = is_seen ? score : 2 * kLowest;
          }
        }
      }
    }
  }

  /// Converts scores to weights, relative to the largest score so far, two neighbours per word: the
  /// layout of a fragment of sums is the layout of a left operand.
  REPRISE_DEVICE void weigh(float (&scores)[2][kTiles][4]) {
    const float exponent = exponent_of_one();
    REPRISE_UNROLL
    for (int fragment = 0; fragment < 2; ++fragment) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        float maximum = largest_[fragment][half];
        REPRISE_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          maximum = larger(maximum, scores[fragment][tile][half * 2]);
          maximum = larger(maximum, scores[fragment][tile][half * 2 + 1]);
        }
        maximum = larger(maximum, shuffle_xor(maximum, 1));
        maximum = larger(maximum, shuffle_xor(maximum, 2));
        const float correction =
            fast_exponential_2((largest_[fragment][half] - maximum) * exponent);
        largest_[fragment][half] = maximum;
        const float shift = -maximum * exponent;
        float total = 0;
        REPRISE_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          REPRISE_UNROLL
          for (int i = 0; i < 2; ++i) {
            float& score = scores[fragment][tile][half * 2 + i];
            score = fast_exponential_2(multiply_add(score, exponent, shift));
            total += score;
          }
          const float (&pair)[4] = scores[fragment][tile];
          weights_[fragment][tile][half] = pack<T>(pair[half * 2], pair[half * 2 + 1]);
        }
        totals_[fragment][half] = multiply_add(totals_[fragment][half], correction, total);
        REPRISE_UNROLL
        for (int column = 0; column < kColumnTiles; ++column) {
          sums_[fragment][column][half * 2] *= correction;
          sums_[fragment][column][half * 2 + 1] *= correction;
        }
      }
    }
  }

  const AttentionKernelArguments& a_;
  const PrefillTile& tile_;
  int first_context_;  // of the warp's rows
  int last_context_;
  float largest_[2][2];  // scores, not scaled
  float totals_[2][2];   // only of this lane's positions
  uint32_t weights_[2][kTiles][2];
  float sums_[2][kColumnTiles][4] = {};
};

}  // namespace reprise::kernels::cuda
