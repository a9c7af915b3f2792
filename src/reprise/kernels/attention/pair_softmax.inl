// The softmax of attention in pairs where lanes are positions. It updates eight rows together,
// because their maxima and totals then need fewer operations across lanes.

constexpr int kSoftmaxRows = 8;

/// Weights as bfloat16.
struct RoundedWeights {
  alignas(64) BFloat16 of[kMaxAttentionRows][kChunk];
};

/// Brings the scores of a row, which sees positions [begin, end) of the chunk, into the form in
/// which only the factor of the rule is missing, and returns the largest score of each lane.
template <bool kSeeAll, bool kIsLinear>
REPRISE_INLINE Vec prepare_scores(float* scores, int begin, int end, const ScoreRule& rule) {
  Vec largest = broadcast(-__builtin_inff());
#pragma GCC unroll 2
  for (int i = 0; i < kChunk; i += kLanes) {
    Vec score = load(scores + i);
    if constexpr (!kIsLinear) score = rule.prepare(score);
    if constexpr (!kSeeAll) {
      score = keep_lanes(score,
                         static_cast<int>(max_of(0, min_of(begin - i, kLanes))),
                         static_cast<int>(max_of(0, min_of(end - i, kLanes))),
                         -__builtin_inff());
    }
    if constexpr (!kSeeAll || !kIsLinear) store(scores + i, score);
    largest = max(largest, score);
  }
  return largest;
}

template <bool kSeeAll, bool kIsLinear>
inline void update_some_rows(AttentionState& state,
                             RoundedWeights& weights,
                             int row,
                             int rows,
                             int begin,
                             int end,
                             const ScoreRule& rule) {
  Vec lanes[kSoftmaxRows];
#pragma GCC unroll 8
  for (int r = 0; r < kSoftmaxRows; ++r) {
    lanes[r] = r < rows
                   ? prepare_scores<kSeeAll, kIsLinear>(state.scores[row + r], begin, end, rule)
                   : zero();
  }
  const NewMaxima maxima(load_some(state.maxima + row, rows), max_of_rows(lanes), rule);
  store_some(state.maxima + row, maxima.powers, rows);
  store_some(state.corrections + row, maxima.corrections, rows);
  float powers[kLanes];
  store(powers, maxima.negative_powers);
  const Vec factor = broadcast(rule.factor);
  static_assert(kChunk == 2 * kLanes);
#pragma GCC unroll 8
  for (int r = 0; r < kSoftmaxRows; ++r) {
    lanes[r] = zero();
    if (r >= rows) continue;
    const Vec power = broadcast(powers[r]);
    const float* scores = state.scores[row + r];
    lanes[r] = store_weights(weights.of[row + r],
                             weight_of(load(scores), factor, power),
                             weight_of(load(scores + kLanes), factor, power));
  }
  const Vec totals = load_some(state.totals + row, rows);
  store_some(state.totals + row, fma(totals, maxima.corrections, sum_of_rows(lanes)), rows);
}

/// Updates the softmax of `rows` rows from `row` on, which see positions [begin, end) of the chunk.
/// Writes the rounded weights.
inline void update_pair_softmax(AttentionState& state,
                                RoundedWeights& weights,
                                int row,
                                int rows,
                                int begin,
                                int end,
                                const ScoreRule& rule) {
  for (int r = row; r < row + rows; r += kSoftmaxRows) {
    const auto count = static_cast<int>(min_of(kSoftmaxRows, row + rows - r));
    if (!rule.is_linear) {
      update_some_rows<false, false>(state, weights, r, count, begin, end, rule);
    } else if (begin == 0 && end == kChunk) {
      update_some_rows<true, true>(state, weights, r, count, begin, end, rule);
    } else {
      update_some_rows<false, true>(state, weights, r, count, begin, end, rule);
    }
  }
}
