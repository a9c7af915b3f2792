// A context is divided into segments at multiples of kAttentionSegment positions, for every batch
// and every query. The softmax of each segment is computed separately, and the results are added
// from the first segment to the last. So the result has the same bits whether one thread computes
// the segments one after the other (attend_context) or several threads share them
// (split_attention.inl).

static_assert(kAttentionSegment % kChunk == 0, "no chunk lies in two segments");

/// The sums of rows after their first segments.
struct SegmentSums {
  alignas(64) float maxima[kMostRows];
  alignas(64) float totals[kMostRows];
  alignas(64) float sums[kMostSums];  // rows value_dim apart
};

/// The part of a segment's positions that a token sees, as far as the addition of segments depends
/// on it.
enum class SegmentView { none, first, later };

/// `first`: the token does not see any position of an earlier segment.
inline SegmentView segment_view(const AttentionRows& rows, int token, int64_t segment) {
  const int64_t begin = segment * kAttentionSegment;
  const int64_t window = rows.window_begin(token);
  if (rows.context(token) <= begin || window >= begin + kAttentionSegment) return SegmentView::none;
  return window >= begin ? SegmentView::first : SegmentView::later;
}

/// Adds the state of a later segment to the sums of a row. This function is not inlined, so that
/// all callers use the same instructions.
__attribute__((noinline)) inline void add_segment(float* sums,
                                                  float& largest,
                                                  float& total,
                                                  const float* segment_sums,
                                                  float segment_largest,
                                                  float segment_total,
                                                  int64_t value_dim) {
  const float new_largest = segment_largest > largest ? segment_largest : largest;
  const float old_factor = exp_of(largest - new_largest);
  const float new_factor = exp_of(segment_largest - new_largest);
  largest = new_largest;
  total = total * old_factor + segment_total * new_factor;
  const Vec old_weight = broadcast(old_factor);
  const Vec new_weight = broadcast(new_factor);
  int64_t i = 0;
  for (; i + kLanes <= value_dim; i += kLanes) {
    store(sums + i, fma(new_weight, load(segment_sums + i), mul(old_weight, load(sums + i))));
  }
  if (i == value_dim) return;
  const int rest = static_cast<int>(value_dim - i);
  const Vec old_sums = mul(old_weight, load_first(sums + i, rest));
  store_first(sums + i, fma(new_weight, load_first(segment_sums + i, rest), old_sums), rest);
}

/// Adds a segment's state to the sums of the rows that see some of the segment.
inline void add_segment_of_rows(const AttentionRows& rows,
                                const AttentionState& state,
                                int64_t segment,
                                SegmentSums& before) {
  const int64_t value_dim = rows.a.value_dim;
  for (int r = 0; r < rows.num_tokens * rows.num_heads; ++r) {
    const SegmentView view = segment_view(rows, r / rows.num_heads, segment);
    if (view == SegmentView::none) continue;
    const float* sums = state.sums + r * value_dim;
    if (view == SegmentView::later) {
      add_segment(before.sums + r * value_dim,
                  before.maxima[r],
                  before.totals[r],
                  sums,
                  state.maxima[r],
                  state.totals[r],
                  value_dim);
    } else {
      __builtin_memcpy(
          before.sums + r * value_dim, sums, static_cast<size_t>(value_dim) * sizeof(float));
      before.maxima[r] = state.maxima[r];
      before.totals[r] = state.totals[r];
    }
  }
}

/// Adds positions [begin, end) of several segments, and leaves the state after all of them.
/// `before`: the sums of the rows after the segments before `begin`. The state is initialised for
/// the first segment.
template <typename T>
inline void attend_segments(const AttentionRows& rows,
                            AttentionState& state,
                            int64_t begin,
                            int64_t end,
                            SegmentSums& before) {
  for (int64_t segment = begin / kAttentionSegment; begin < end; ++segment) {
    const int64_t segment_end = min_of((segment + 1) * kAttentionSegment, end);
    attend_positions<T>(rows, state, begin, segment_end);
    add_segment_of_rows(rows, state, segment, before);
    begin = segment_end;
    if (begin < end) begin_states(rows, state);
  }
  const int count = rows.num_tokens * rows.num_heads;
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  __builtin_memcpy(state.maxima, before.maxima, bytes);
  __builtin_memcpy(state.totals, before.totals, bytes);
  __builtin_memcpy(state.sums, before.sums, bytes * static_cast<size_t>(rows.a.value_dim));
}

/// attend_segments() from a first segment on. It is a separate function because of its large stack
/// frame.
template <typename T>
__attribute__((noinline)) void attend_first_segments(const AttentionRows& rows,
                                                     AttentionState& state,
                                                     int64_t begin,
                                                     int64_t end) {
  SegmentSums before;
  attend_segments<T>(rows, state, begin, end, before);
}

/// Adds positions [begin, end), segment by segment. The state is initialised and may already have
/// earlier positions of the segment of `begin`. \pre as for attend_positions
template <typename T>
inline void attend_context(const AttentionRows& rows,
                           AttentionState& state,
                           int64_t begin,
                           int64_t end) {
  if (begin / kAttentionSegment == (end - 1) / kAttentionSegment) {
    return attend_positions<T>(rows, state, begin, end);
  }
  attend_first_segments<T>(rows, state, begin, end);
}
