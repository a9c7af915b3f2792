// The softmax of attention in pairs. It updates eight rows together, because their maxima and
// totals then need fewer operations across lanes.
//
// A running maximum is rounded up to a multiple of ln 2, so corrections are powers of two, which
// bfloat16 represents exactly. A weight is therefore rounded in the same way, whatever positions
// precede it and however a context is divided.

constexpr int kSoftmaxRows = 8;

/// Weights as bfloat16, and the divisors of the sums of rows.
struct RoundedWeights {
  alignas(64) BFloat16 of[kMaxAttentionRows][kChunk];
};

constexpr float kLog2E = 1.44269504088896341F;
constexpr float kLn2 = 0.693147180559945309F;

/// e^x / 2^power with an error of 2^-13.7, for a weight that is rounded to eight bits. `power` is
/// integral, and e^-inf is 0. The polynomial is a minimax of 2^r for |r| <= 1/2, by Remez's
/// exchange.
REPRISE_INLINE Vec exp_of_weight(Vec x, Vec power) {
  const Vec two = max(broadcast(-1e30F), mul(x, broadcast(kLog2E)));  // keeps a NaN
  const Vec n = round_nearest(two);
  const Vec r = sub(two, n);
  Vec p = broadcast(0.0551716685F);
  p = fma(p, r, broadcast(0.242611125F));
  p = fma(p, r, broadcast(0.693260968F));
  p = fma(p, r, broadcast(0.999928057F));
  return scale_by_power_of_two(p, sub(n, power));
}

template <bool kSeeAll>
inline void update_some_rows(AttentionState& state,
                             RoundedWeights& weights,
                             int row,
                             int rows,
                             int begin,
                             int end,
                             const AttentionKernelArguments& a) {
  Vec lanes[kSoftmaxRows];
#pragma GCC unroll 8
  for (int r = 0; r < kSoftmaxRows; ++r) {
    lanes[r] = r < rows ? scale_scores<kSeeAll>(state, row + r, begin, end, a) : zero();
  }
  // This code uses powers of two instead of powers of e. The maxima of the state are multiples of
  // ln 2.
  const Vec before = round_nearest(mul(load_some(state.maxima + row, rows), broadcast(kLog2E)));
  const Vec now = max(before, round_up(mul(max_of_rows(lanes), broadcast(kLog2E))));
  const Vec corrections = scale_by_power_of_two(broadcast(1.0F), sub(before, now));
  float powers[kLanes];
  store(powers, now);
  store_some(state.maxima + row, mul(now, broadcast(kLn2)), rows);
  store_some(state.corrections + row, corrections, rows);
#pragma GCC unroll 8
  for (int r = 0; r < kSoftmaxRows; ++r) {
    lanes[r] = zero();
    if (r >= rows) continue;
    const Vec power = broadcast(powers[r]);
#pragma GCC unroll 2
    for (int i = 0; i < kChunk; i += kLanes) {
      const Vec weight = exp_of_weight(load(state.scores[row + r] + i), power);
      lanes[r] = add(lanes[r], store_rounded(weights.of[row + r] + i, weight));
    }
  }
  const Vec totals = load_some(state.totals + row, rows);
  store_some(state.totals + row, fma(totals, corrections, sum_of_rows(lanes)), rows);
}

/// Does the same as update_softmax(), but rounds the weights and writes them to `weights`.
inline void update_pair_softmax(AttentionState& state,
                                RoundedWeights& weights,
                                int row,
                                int rows,
                                int begin,
                                int end,
                                const AttentionKernelArguments& a) {
  for (int r = row; r < row + rows; r += kSoftmaxRows) {
    const auto count = static_cast<int>(min_of(kSoftmaxRows, row + rows - r));
    if (begin == 0 && end == kChunk) {
      update_some_rows<true>(state, weights, r, count, begin, end, a);
    } else {
      update_some_rows<false>(state, weights, r, count, begin, end, a);
    }
  }
}
