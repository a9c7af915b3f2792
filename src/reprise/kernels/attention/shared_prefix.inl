// The softmax of many rows over positions that all of them see, kept as a state for each row. The
// attention of a request continues from this state: its rows use the same chunks and segments in
// the same order as without a shared prefix, so they have the same bits.

/// Each row has two states: of all complete segments of the prefix, and of the segment in which the
/// prefix ends.
constexpr int64_t kCompleteSegments = 0;
constexpr int64_t kOpenSegment = 1;

inline float* prefix_state(const AttentionRows& rows, float* states, int row, int64_t which) {
  const AttentionKernelArguments& a = rows.a;
  const int64_t token = rows.first_token + row / rows.num_heads;
  const int64_t head = rows.first_head + row % rows.num_heads;
  return states + ((token * a.kv_heads * a.group_size + head) * 2 + which) * (a.value_dim + 2);
}

inline void load_prefix_states(
    const AttentionRows& rows, int64_t which, float* sums, float* maxima, float* totals) {
  const int64_t value_dim = rows.a.value_dim;
  for (int r = 0; r < rows.num_tokens * rows.num_heads; ++r) {
    const float* from = prefix_state(rows, const_cast<float*>(rows.a.prefix_states), r, which);
    __builtin_memcpy(sums + r * value_dim, from, static_cast<size_t>(value_dim) * sizeof(float));
    maxima[r] = from[value_dim];
    totals[r] = from[value_dim + 1];
  }
}

inline void store_prefix_states(const AttentionRows& rows,
                                const AttentionState& state,
                                int64_t which,
                                float* states) {
  const int64_t value_dim = rows.a.value_dim;
  for (int r = 0; r < rows.num_tokens * rows.num_heads; ++r) {
    float* to = prefix_state(rows, states, r, which);
    __builtin_memcpy(
        to, state.sums + r * value_dim, static_cast<size_t>(value_dim) * sizeof(float));
    to[value_dim] = state.maxima[r];
    to[value_dim + 1] = state.totals[r];
  }
}

/// Continues from the states of a prefix with complete segments, up to position `end`. It is a
/// separate function because of its large stack frame.
template <typename T>
__attribute__((noinline)) void attend_behind_prefix(const AttentionRows& rows,
                                                    AttentionState& state,
                                                    int64_t end) {
  const int64_t known = rows.a.shared_prefix_len;
  SegmentSums complete;
  load_prefix_states(rows, kCompleteSegments, complete.sums, complete.maxima, complete.totals);
  if (known % kAttentionSegment == 0) {
    begin_states(rows, state);
  } else {
    load_prefix_states(rows, kOpenSegment, state.sums, state.maxima, state.totals);
  }
  attend_segments<T>(rows, state, known, end, complete);
}

template <typename T>
inline void attend_prefix(const AttentionRows& rows,
                          AttentionState& state,
                          int64_t prefix_len,
                          float* states) {
  const int64_t complete = prefix_len / kAttentionSegment * kAttentionSegment;
  if (complete > 0) {
    begin_states(rows, state);
    attend_context<T>(rows, state, 0, complete);
    store_prefix_states(rows, state, kCompleteSegments, states);
  }
  if (complete == prefix_len) return;
  begin_states(rows, state);
  attend_positions<T>(rows, state, complete, prefix_len);
  store_prefix_states(rows, state, kOpenSegment, states);
}

template <typename T>
void run_shared_prefix(const void* args, device::BlockRange blocks) noexcept {
  const auto& p = *static_cast<const SharedPrefixArguments*>(args);
  // Every row sees the whole prefix, so attention over the chunks of the prefix is not causal.
  AttentionKernelArguments a = p.call;
  a.is_bidirectional = 1;
  const int64_t num_tokens = max_of(0, min_of(a.num_tokens, a.query_start_loc[a.num_reqs]));
  const int64_t heads_at_once = min_of(a.group_size, kMaxAttentionRows);
  AttentionState state;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t kv_head = block % a.kv_heads;
    const int64_t token = block / a.kv_heads * p.tokens_per_block;
    const int64_t end = min_of(token + p.tokens_per_block, num_tokens);
    if (token >= end) continue;
    for (int64_t head = 0; head < a.group_size; head += heads_at_once) {
      const AttentionRows rows{a,
                               0,  // any request: its table begins with the blocks of the prefix
                               kv_head,
                               token,
                               p.prefix_len,
                               static_cast<int>(end - token),
                               static_cast<int>(kv_head * a.group_size + head),
                               static_cast<int>(min_of(heads_at_once, a.group_size - head))};
      attend_prefix<T>(rows, state, p.prefix_len, p.states);
    }
  }
}
