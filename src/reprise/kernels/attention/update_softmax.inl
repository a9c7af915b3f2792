/// One update of the softmax of `rows` rows from `row` on. These see positions [begin, end) of the
/// chunk.
inline void update_softmax(AttentionState& state,
                           int row,
                           int rows,
                           int begin,
                           int end,
                           const AttentionKernelArguments& a) {
  const float infinity = __builtin_inff();
  for (int r = row; r < row + rows; ++r) {
    Vec largest = broadcast(-infinity);
    for (int i = 0; i < kChunk; i += kLanes) {
      Vec scaled = mul(load(state.scores[r] + i), broadcast(a.scale));
      if (a.soft_cap > 0) scaled = soft_capped(scaled, a.soft_cap);
      const Vec score = keep_lanes(scaled,
                                   static_cast<int>(max_of(0, min_of(begin - i, kLanes))),
                                   static_cast<int>(max_of(0, min_of(end - i, kLanes))),
                                   -infinity);
      store(state.scores[r] + i, score);
      largest = max(largest, score);
    }
    const float chunk_maximum = maximum(largest);
    const float new_maximum = chunk_maximum > state.maxima[r] ? chunk_maximum : state.maxima[r];
    state.corrections[r] = state.maxima[r] - new_maximum;
    state.maxima[r] = new_maximum;
  }
  for (int r = row; r < row + rows; r += kLanes) {
    const int count = static_cast<int>(min_of(kLanes, row + rows - r));
    const Vec correction = exp(count == kLanes ? load(state.corrections + r)
                                               : load_first(state.corrections + r, count));
    if (count == kLanes) {
      store(state.corrections + r, correction);
    } else {
      store_first(state.corrections + r, correction, count);
    }
  }
  for (int r = row; r < row + rows; ++r) {
    Vec total = zero();
    for (int i = 0; i < kChunk; i += kLanes) {
      // exp(-inf) is 0, so positions that the row does not see add nothing.
      const Vec weight = exp(sub(load(state.scores[r] + i), broadcast(state.maxima[r])));
      store(state.scores[r] + i, weight);
      total = add(total, weight);
    }
    state.totals[r] = state.totals[r] * state.corrections[r] + sum(total);
  }
}

/// Multiplies the scores, or the weights, of rows with the scales of the positions.
inline void scale_positions(AttentionState& state, int row, int rows, const float* scales) {
  for (int r = row; r < row + rows; ++r) {
    for (int i = 0; i < kChunk; i += kLanes) {
      store(state.scores[r] + i, mul(load(state.scores[r] + i), load(scales + i)));
    }
  }
}
