#pragma once

#include "reprise/kernels/cuda/prefill_stream.cuh"
#include "reprise/kernels/cuda/state_arguments.h"
#include "reprise/kernels/cuda/state_kernels.cuh"

// The numbers that a chunk of a prompt needs before the state of a recurrent layer: its decays,
// and the products of its keys and queries with its keys. The products run on the tensor cores in
// bfloat16. A float32 number is the sum of two such numbers there (16 bits), and products of the
// lower parts are left out. So results are as exact as the token-after-token kernels within 2^-16.
namespace reprise::kernels::cuda {

/// Two numbers, each as the sum of two bfloat16 numbers.
struct SplitPair {
  uint32_t high;
  uint32_t low;
};
/// The compiler may neither move this nor use its result again: the terms of a whole state would
/// take as many registers as the state.
REPRISE_DEVICE SplitPair split_pair(float first, float second) {
  const auto high =
      static_cast<uint32_t>(same_again(static_cast<int>(pack<BFloat16>(first, second))));
  const uint32_t low =
      pack<BFloat16>(first - float_of(high << 16), second - float_of(high & 0xFFFF0000U));
  return {high, low};
}

/// Elements of this type need no second term.
template <typename T>
inline constexpr bool kIsOneTerm = false;
template <>
inline constexpr bool kIsOneTerm<BFloat16> = true;

template <typename T>
REPRISE_DEVICE SplitPair split_word(uint32_t word) {
  if constexpr (kIsOneTerm<T>) {
    return {word, 0};
  } else {
    return split_pair(as_float(T{static_cast<uint16_t>(word)}),
                      as_float(T{static_cast<uint16_t>(word >> 16)}));
  }
}

/// lane_index(), for addresses that are computed where they are needed: registers are scarce here.
REPRISE_DEVICE int lane_again() { return same_again(lane_index()); }

/// The operand a[16, 16] of a product.
struct RowFragment {
  uint32_t high[4];
  uint32_t low[4];
};
/// The operand b[16, 8] of a product.
struct ColumnFragment {
  uint32_t high[2];
  uint32_t low[2];
};

template <bool kOneTermA, bool kOneTermB>
REPRISE_DEVICE void multiply_split(float (&c)[4], const RowFragment& a, const ColumnFragment& b) {
  if constexpr (!kOneTermA) multiply_fragments<BFloat16>(c, a.low, b.high);
  if constexpr (!kOneTermB) multiply_fragments<BFloat16>(c, a.high, b.low);
  multiply_fragments<BFloat16>(c, a.high, b.high);
}

/// Two neighbouring tiles c[16, 8] as an operand a[16, 16].
REPRISE_DEVICE RowFragment split_tiles(const float (&left)[4], const float (&right)[4]) {
  RowFragment a;
  REPRISE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const SplitPair of_left = split_pair(left[2 * i], left[2 * i + 1]);
    const SplitPair of_right = split_pair(right[2 * i], right[2 * i + 1]);
    a.high[i] = of_left.high;
    a.low[i] = of_left.low;
    a.high[2 + i] = of_right.high;
    a.low[2 + i] = of_right.low;
  }
  return a;
}

/// Columns [16 step, 16 step + 16) of sixteen rows from `first` on.
template <typename T, int kDim>
REPRISE_DEVICE RowFragment row_fragment(const SharedRows<kDim>& rows, int first, int step) {
  const int lane = lane_again();
  uint32_t words[4];
  load_fragments(words, shared_address(rows.chunk(first + lane % 16, 2 * step + lane / 16)));
  RowFragment a;
  REPRISE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const SplitPair pair = split_word<T>(words[i]);
    a.high[i] = pair.high;
    a.low[i] = pair.low;
  }
  return a;
}

template <typename T>
REPRISE_DEVICE void split_columns(ColumnFragment (&b)[2], const uint32_t (&words)[4]) {
  REPRISE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const SplitPair pair = split_word<T>(words[i]);
    b[i / 2].high[i % 2] = pair.high;
    b[i / 2].low[i % 2] = pair.low;
  }
}

/// Sixteen rows from `first` on become columns of two operands; the depth is [16 step, 16 step +
/// 16) of the rows.
template <typename T, int kDim>
REPRISE_DEVICE void load_rows_as_columns(ColumnFragment (&b)[2],
                                         const SharedRows<kDim>& rows,
                                         int first,
                                         int step) {
  const int lane = lane_again();
  uint32_t words[4];
  load_fragments(
      words, shared_address(rows.chunk(first + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2)));
  split_columns<T>(b, words);
}

/// Columns [8 chunk, 8 chunk + 16) become columns of two operands; the depth is sixteen rows from
/// `first` on.
template <typename T, int kDim>
REPRISE_DEVICE void load_columns_as_columns(ColumnFragment (&b)[2],
                                            const SharedRows<kDim>& rows,
                                            int first,
                                            int chunk) {
  const int lane = lane_again();
  uint32_t words[4];
  load_fragments_transposed(words,
                            shared_address(rows.chunk(first + lane % 16, chunk + lane / 16)));
  split_columns<T>(b, words);
}

/// Numbers for each two tokens of a chunk, the later token by rows. What lies above the diagonal is
/// not used.
struct Triangle {
  float* numbers;

  REPRISE_DEVICE float& at(int row, int column) const {
    return numbers[row * kTriangleStride + column];
  }
  /// Rows [8 tile, 8 tile + 8) as columns; the depth is [16 step, 16 step + 16). Zeros lie above
  /// the diagonal.
  [[nodiscard]] REPRISE_DEVICE ColumnFragment fragment(int tile, int step) const {
    const int lane = lane_again();
    const int row = 8 * tile + lane / 4;
    ColumnFragment b;
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int column = 16 * step + 8 * half + lane % 4 * 2;
      const SplitPair pair = split_pair(row >= column ? at(row, column) : 0.0F,
                                        row > column ? at(row, column + 1) : 0.0F);
      b.high[half] = pair.high;
      b.low[half] = pair.low;
    }
    return b;
  }
};

/// sums[., row] += the sum over columns up to `row` of x[., column] * triangle[row, column].
REPRISE_DEVICE void multiply_triangle(float (&sums)[8][4],
                                      const float (&x)[8][4],
                                      const Triangle& triangle) {
  REPRISE_UNROLL
  for (int step = 0; step < 4; ++step) {
    const RowFragment a = split_tiles(x[2 * step], x[2 * step + 1]);
    REPRISE_UNROLL
    for (int tile = 2 * step; tile < 8; ++tile) {
      multiply_split<false, false>(sums[tile], a, triangle.fragment(tile, step));
    }
  }
}

/// Calls act(row, column, product) for sixteen rows of `left` and all earlier or equal rows of
/// `right`. Each warp has a tile of its own.
template <typename T, int kDim, typename Act>
REPRISE_DEVICE void multiply_rows(const SharedRows<kDim>& left,
                                  const SharedRows<kDim>& right,
                                  int tile,
                                  const Act& act) {
  float sums[8][4] = {};
  REPRISE_UNROLL_BY_2
  for (int step = 0; step < kDim / 16; ++step) {
    const RowFragment a = row_fragment<T>(left, 16 * tile, step);
    REPRISE_UNROLL
    for (int pair = 0; pair < 4; ++pair) {
      if (pair > tile) continue;
      ColumnFragment b[2];
      load_rows_as_columns<T>(b, right, 16 * pair, step);
      multiply_split<kIsOneTerm<T>, kIsOneTerm<T>>(sums[2 * pair], a, b[0]);
      multiply_split<kIsOneTerm<T>, kIsOneTerm<T>>(sums[2 * pair + 1], a, b[1]);
    }
  }
  REPRISE_UNROLL
  for (int i = 0; i < 32; ++i) {
    // Keeps the compiler from loading all factors first, for which there are no registers.
    if (i % 4 == 0) sync_warp();
    const int lane = lane_again();
    const int row = 16 * tile + lane / 4 + i % 4 / 2 * 8;
    const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (column <= row) act(row, column, sums[i / 4][i % 4]);
  }
}

/// Replaces two neighbouring blocks on the diagonal, which are inverted, and the block below the
/// first one by the inverse of all three: -(second inverse) block (first inverse). The place above
/// the diagonal takes the first product.
template <int kSize>
REPRISE_DEVICE void merge_inverses(const Triangle& m) {
  constexpr int kWork = kStateChunkTokens / 2 * kSize;
  const auto for_each = [](const auto& act) {
    for (int i = thread_index(); i < kWork; i += num_threads()) {
      act(i / (kSize * kSize) * 2 * kSize, i / kSize % kSize, i % kSize);
    }
    sync_block();
  };
  for_each([&](int base, int row, int column) {
    float sum = 0;
    for (int j = column; j < kSize; ++j) {
      sum = multiply_add(m.at(base + kSize + row, base + j), m.at(base + j, base + column), sum);
    }
    m.at(base + row, base + kSize + column) = sum;
  });
  for_each([&](int base, int row, int column) {
    float sum = 0;
    for (int j = 0; j <= row; ++j) {
      sum = multiply_add(
          m.at(base + kSize + row, base + kSize + j), m.at(base + j, base + kSize + column), sum);
    }
    m.at(base + kSize + row, base + column) = -sum;
  });
}

/// Replaces a triangle A by the inverse of I + A, for A below the diagonal. Row t of the inverse
/// follows from rows up to t. All threads of the block take part.
REPRISE_DEVICE void invert(const Triangle& m) {
  constexpr int kSize = 16;
  const int base = thread_index() / kSize * kSize;
  const int column = thread_index() % kSize;
  const bool has_column = thread_index() < kStateChunkTokens;
  float x[kSize];
  if (has_column) {
    REPRISE_UNROLL
    for (int row = 0; row < kSize; ++row) {
      float sum = row == column ? 1.0F : 0.0F;
      REPRISE_UNROLL
      for (int j = 0; j < row; ++j) {
        sum = multiply_add(-m.at(base + row, base + j), x[j], sum);
      }
      x[row] = sum;
    }
  }
  sync_block();
  if (has_column) {
    REPRISE_UNROLL
    for (int row = 0; row < kSize; ++row) {
      if (row >= column) m.at(base + row, base + column) = x[row];
    }
  }
  sync_block();
  merge_inverses<kSize>(m);
  merge_inverses<2 * kSize>(m);
}

/// A number for each token of a chunk.
struct ChunkFactors {
  float* numbers;

  [[nodiscard]] REPRISE_DEVICE float* array(int index) const {
    return numbers + index * kStateChunkTokens;
  }
  /// The sum of decay() up to the token. In float32 one strong decay would make the differences of
  /// all later sums inexact.
  [[nodiscard]] REPRISE_DEVICE double* total() const { return reinterpret_cast<double*>(numbers); }
  /// The logarithm of the decay from one token to a later one.
  [[nodiscard]] REPRISE_DEVICE float decay_between(int token, int later) const {
    return static_cast<float>(total()[later] - total()[token]);
  }
  /// The logarithm of the decay by the token.
  [[nodiscard]] REPRISE_DEVICE float* decay() const { return array(2); }
  /// By how much a change that the token makes is multiplied: sigmoid(beta), or the time step.
  [[nodiscard]] REPRISE_DEVICE float* weight() const { return array(3); }
  /// The factor that gives a key or a query the length that the layer wants.
  [[nodiscard]] REPRISE_DEVICE float* of_key() const { return array(4); }
  [[nodiscard]] REPRISE_DEVICE float* of_query() const { return array(5); }
  /// Three factors: of the answer of the state before the chunk to the key, of its answer to the
  /// query, and of the token's change in the state after the chunk.
  [[nodiscard]] REPRISE_DEVICE float* key_answer() const { return array(6); }
  [[nodiscard]] REPRISE_DEVICE float* query_answer() const { return array(7); }
  [[nodiscard]] REPRISE_DEVICE float* kept_change() const { return array(8); }
};

/// One head of a request, and its operands for the first token of the step. It lies in shared
/// memory, because registers are needed for the state. Strides are those of tokens.
template <typename T>
struct ChunkHead {
  int num_tokens;      // in chunks
  int first_position;  // of the first token in its request
  const T* key;
  int64_t key_stride;
  const T* query;
  int64_t query_stride;
  const T* value;  // the first value of the block
  int64_t value_stride;
  T* out;  // likewise
  int64_t out_stride;
  int key_dim;
  int num_values;  // of the block
  const T* step;
  int64_t step_stride;
  const T* beta;  // not used by Mamba-2
  int64_t beta_stride;
  float step_bias;
  float rate;  // of the decay
  float query_scale;
  float skip;           // of values in results
  const float* before;  // the state before the tokens, at the block's first value; nullptr: zeros
  float* after;         // the state after them
  int of_next_key;      // distance in a state
  int of_next_value;
};

/// Copies `rows` rows of `columns` elements, and zeros behind them. Copies may arrive later.
template <typename T, int kDim>
REPRISE_DEVICE void load_chunk(
    const SharedRows<kDim>& to, const T* from, int64_t stride, int rows, int columns) {
  constexpr int kPerRow = SharedRows<kDim>::kChunks;
  const bool is_fast = is_aligned(from) && stride % 8 == 0 && columns % 8 == 0;
  for (int i = thread_index(); i < kStateChunkTokens * kPerRow; i += num_threads()) {
    const int row = i / kPerRow;
    const int column = i % kPerRow * 8;
    const bool is_there = row < rows && column < columns;
    char* place = to.chunk(row, i % kPerRow);
    const T* source = is_there ? from + row * stride + column : from;
    if (is_fast) {
      copy_words_async(place, source, is_there);
      continue;
    }
    auto* elements = reinterpret_cast<T*>(place);
    for (int j = 0; j < 8; ++j) {
      put(elements + j, is_there && column + j < columns ? as_float(source[j]) : 0.0F);
    }
  }
}

template <typename T, int kDim>
REPRISE_DEVICE T& element_in(const SharedRows<kDim>& rows, int row, int column) {
  return *reinterpret_cast<T*>(rows.chunk(row, column / 8) + column % 8 * sizeof(T));
}

/// Tokens behind the chunk decay nothing and change nothing.
template <bool kIsDelta, typename T>
REPRISE_DEVICE void compute_decays(const ChunkHead<T>& head,
                                   const ChunkFactors& factors,
                                   int first_token,
                                   int count) {
  const int t = thread_index();
  if (t >= kStateChunkTokens) return;
  float step = 0;
  float weight = 0;
  if (t < count) {
    const int64_t token = first_token + t;
    step = softplus(as_float(head.step[token * head.step_stride]) + head.step_bias);
    weight = kIsDelta ? sigmoid(as_float(head.beta[token * head.beta_stride])) : step;
  }
  factors.decay()[t] = -head.rate * step;
  factors.weight()[t] = weight;
}

/// A warp measures a key and a query of each of its tokens.
template <typename T, int kDim>
REPRISE_DEVICE void measure(const SharedRows<kDim>& keys,
                            const SharedRows<kDim>& queries,
                            const ChunkFactors& factors,
                            float query_scale) {
  const auto length_of = [](const SharedRows<kDim>& rows, int row) {
    float sum = 0;
    for (int i = lane_index(); i < kDim; i += kWarpSize) {
      const float x = as_float(element_in<T>(rows, row, i));
      sum = multiply_add(x, x, sum);
    }
    return square_root(warp_sum(sum) + 1e-6F);
  };
  for (int t = warp_index(); t < kStateChunkTokens; t += num_warps()) {
    const float of_key = 1.0F / length_of(keys, t);
    const float of_query = query_scale / length_of(queries, t);
    if (lane_index() > 0) continue;
    factors.of_key()[t] = of_key;
    factors.of_query()[t] = of_query;
  }
}

REPRISE_DEVICE void sum_decays(const ChunkFactors& factors) {
  const int t = thread_index();
  if (t >= kStateChunkTokens) return;
  double sum = 0;
  for (int i = 0; i <= t; ++i) sum += factors.decay()[i];
  factors.total()[t] = sum;
}

template <bool kIsDelta>
REPRISE_DEVICE void compute_answers(const ChunkFactors& factors) {
  const int t = thread_index();
  if (t >= kStateChunkTokens) return;
  const float of_key = kIsDelta ? factors.of_key()[t] : 1.0F;
  const float of_query = kIsDelta ? factors.of_query()[t] : 1.0F;
  const float kept = exponential(static_cast<float>(factors.total()[t]));
  factors.key_answer()[t] = factors.weight()[t] * of_key * kept;
  factors.query_answer()[t] = of_query * kept;
  factors.kept_change()[t] = of_key * exponential(factors.decay_between(t, kStateChunkTokens - 1));
}

}  // namespace reprise::kernels::cuda
