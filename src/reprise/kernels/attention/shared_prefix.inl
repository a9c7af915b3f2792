// The softmax of many rows over positions that all of them see, kept as the state of each row. The
// attention of a request goes on from there: its rows take the same chunks in the same order as
// without a shared prefix, so they have the same bits.

inline float* prefix_state(const AttentionKernelArguments& a,
                           float* states,
                           int64_t token,
                           int64_t head) {
  return states + (token * a.kv_heads * a.group_size + head) * (a.value_dim + 2);
}

inline void load_prefix_states(const AttentionRows& rows, AttentionState& state) {
  const int64_t value_dim = rows.a.value_dim;
  for (int r = 0; r < rows.num_tokens * rows.num_heads; ++r) {
    const float* from = prefix_state(rows.a,
                                     const_cast<float*>(rows.a.prefix_states),
                                     rows.first_token + r / rows.num_heads,
                                     rows.first_head + r % rows.num_heads);
    __builtin_memcpy(
        state.sums + r * value_dim, from, static_cast<size_t>(value_dim) * sizeof(float));
    state.maxima[r] = from[value_dim];
    state.totals[r] = from[value_dim + 1];
  }
}

inline void store_prefix_states(const AttentionRows& rows,
                                const AttentionState& state,
                                float* states) {
  const int64_t value_dim = rows.a.value_dim;
  for (int r = 0; r < rows.num_tokens * rows.num_heads; ++r) {
    float* to = prefix_state(rows.a,
                             states,
                             rows.first_token + r / rows.num_heads,
                             rows.first_head + r % rows.num_heads);
    __builtin_memcpy(
        to, state.sums + r * value_dim, static_cast<size_t>(value_dim) * sizeof(float));
    to[value_dim] = state.maxima[r];
    to[value_dim + 1] = state.totals[r];
  }
}

template <typename T>
void run_shared_prefix(const void* args, device::BlockRange blocks) noexcept {
  const auto& p = *static_cast<const SharedPrefixArguments*>(args);
  // No row sees less than the prefix, so for the chunks of the prefix attention has no order.
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
      begin_states(rows, state);
      attend_positions<T>(rows, state, 0, p.prefix_len);
      store_prefix_states(rows, state, p.states);
    }
  }
}
