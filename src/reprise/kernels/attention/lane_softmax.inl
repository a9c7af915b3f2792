// The softmax of attention where lanes are rows, for pairs and tiles. It needs no operation across
// lanes.

/// The scores of the rows of a vector with the positions of a chunk, and what becomes of them.
struct LaneScores {
  float* scores;  // [position][row], positions score_stride apart
  int64_t score_stride;
  BFloat16* weights;  // [position / 2][row][2], pairs of positions weight_stride apart
  int64_t weight_stride;
  int begin;  // the positions of the chunk that get weights: even numbers
  int end;
  bool are_all_seen;        // each row sees all of these positions
  const float* first_seen;  // by row, in the chunk
  const float* last_seen;
};

/// Prepares the scores, and returns the largest score of each row.
inline Vec largest_scores(const LaneScores& s, const ScoreRule& rule) {
  Vec largest[4];
  for (Vec& some : largest) some = broadcast(-__builtin_inff());
  if (rule.is_linear && s.are_all_seen) {
    int p = s.begin;
    for (; p + 4 <= s.end; p += 4) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        largest[i] = max(largest[i], load(s.scores + (p + i) * s.score_stride));
      }
    }
    for (; p < s.end; ++p) largest[0] = max(largest[0], load(s.scores + p * s.score_stride));
  } else {
    const Vec first = load(s.first_seen);
    const Vec last = load(s.last_seen);
    for (int p = s.begin; p < s.end; ++p) {
      Vec score = load(s.scores + p * s.score_stride);
      if (!rule.is_linear) score = rule.prepare(score);
      const Vec position = broadcast(static_cast<float>(p));
      score = keep_between(score, position, first, last, -__builtin_inff());
      store(s.scores + p * s.score_stride, score);
      largest[0] = max(largest[0], score);
    }
  }
  return max(max(largest[0], largest[1]), max(largest[2], largest[3]));
}

/// The sum of the sums of 16 pairs of positions, in the order of sum_of_rows().
REPRISE_INLINE Vec sum_of_pairs(const Vec (&pairs)[kChunk / 2]) {
  Vec quarters[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Vec* four = pairs + 4 * i;
    quarters[i] = add(add(four[0], four[2]), add(four[1], four[3]));
  }
  return add(add(quarters[0], quarters[2]), add(quarters[1], quarters[3]));
}

/// Updates the softmax of the rows of a vector, whose maxima and totals are given. Returns the
/// corrections of the earlier sums.
inline Vec update_lane_softmax(const LaneScores& s,
                               const ScoreRule& rule,
                               float* maxima_at,
                               float* totals_at) {
  const NewMaxima maxima(load(maxima_at), largest_scores(s, rule), rule);
  store(maxima_at, maxima.powers);
  const Vec factor = broadcast(rule.factor);
  Vec pairs[kChunk / 2];
  for (int i = 0; i < kChunk / 2; ++i) {
    pairs[i] = zero();
    if (2 * i < s.begin || 2 * i >= s.end) continue;
    const float* scores = s.scores + 2 * i * s.score_stride;
    pairs[i] = store_weight_pairs(
        s.weights + i * s.weight_stride,
        weight_of(load(scores), factor, maxima.negative_powers),
        weight_of(load(scores + s.score_stride), factor, maxima.negative_powers));
  }
  store(totals_at, fma(load(totals_at), maxima.corrections, sum_of_pairs(pairs)));
  return maxima.corrections;
}
