/// Scales the scores of a row, which sees positions [begin, end) of the chunk, and returns the
/// largest score of each lane.
template <bool kSeeAll>
REPRISE_INLINE Vec scale_scores(
    AttentionState& state, int row, int begin, int end, const AttentionKernelArguments& a) {
  const float infinity = __builtin_inff();
  const Vec scale = broadcast(a.scale);
  Vec largest = broadcast(-infinity);
#pragma GCC unroll 2
  for (int i = 0; i < kChunk; i += kLanes) {
    Vec score = mul(load(state.scores[row] + i), scale);
    if (a.soft_cap > 0) score = soft_capped(score, a.soft_cap);
    if constexpr (!kSeeAll) {
      score = keep_lanes(score,
                         static_cast<int>(max_of(0, min_of(begin - i, kLanes))),
                         static_cast<int>(max_of(0, min_of(end - i, kLanes))),
                         -infinity);
    }
    store(state.scores[row] + i, score);
    largest = max(largest, score);
  }
  return largest;
}

/// Scales the scores of rows [row, row + rows) and finds the new maxima.
template <bool kSeeAll>
inline void find_maxima(AttentionState& state,
                        int row,
                        int rows,
                        int begin,
                        int end,
                        const AttentionKernelArguments& a) {
  for (int r = row; r < row + rows; ++r) {
    const float chunk_maximum = maximum(scale_scores<kSeeAll>(state, r, begin, end, a));
    const float new_maximum = chunk_maximum > state.maxima[r] ? chunk_maximum : state.maxima[r];
    state.corrections[r] = state.maxima[r] - new_maximum;
    state.maxima[r] = new_maximum;
  }
}

/// Updates the softmax of `rows` rows from `row` on, which see positions [begin, end) of the chunk.
/// The weights replace the scores.
inline void update_softmax(AttentionState& state,
                           int row,
                           int rows,
                           int begin,
                           int end,
                           const AttentionKernelArguments& a) {
  if (begin == 0 && end == kChunk) {
    find_maxima<true>(state, row, rows, begin, end, a);
  } else {
    find_maxima<false>(state, row, rows, begin, end, a);
  }
  for (int r = row; r < row + rows; r += kLanes) {
    const int count = static_cast<int>(min_of(kLanes, row + rows - r));
    store_some(state.corrections + r, exp(load_some(state.corrections + r, count)), count);
  }
  for (int r = row; r < row + rows; ++r) {
    const Vec largest = broadcast(state.maxima[r]);
    Vec total = zero();
#pragma GCC unroll 2
    for (int i = 0; i < kChunk; i += kLanes) {
      // exp(-inf) is 0, so positions that the row does not see add nothing.
      const Vec weight = exp(sub(load(state.scores[r] + i), largest));
      store(state.scores[r] + i, weight);
      total = add(total, weight);
    }
    state.totals[r] = state.totals[r] * state.corrections[r] + sum(total);
  }
}

/// Adds the biases of the positions from `chunk` on to the scores of all rows.
inline void add_biases(AttentionState& state, const AttentionRows& rows, int64_t chunk) {
  const AttentionKernelArguments& a = rows.a;
  if (a.biases == nullptr) return;
  const int count = static_cast<int>(min_of(kChunk, a.num_biases - chunk));
  for (int r = 0; r < rows.num_tokens * rows.num_heads; ++r) {
    const float* biases = a.biases + (rows.first_head + r % rows.num_heads) * a.num_biases + chunk;
    for (int i = 0; i < count; i += kLanes) {
      const int some = lanes_at(i, count);
      store(state.scores[r] + i, add(load(state.scores[r] + i), load_some(biases + i, some)));
    }
  }
}

/// Multiplies the scores, or the weights, of rows by the scales of the positions.
inline void scale_positions(AttentionState& state, int row, int rows, const float* scales) {
  for (int r = row; r < row + rows; ++r) {
    for (int i = 0; i < kChunk; i += kLanes) {
      store(state.scores[r] + i, mul(load(state.scores[r] + i), load(scales + i)));
    }
  }
}
