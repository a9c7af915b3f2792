#include "reprise/kernels/attention/attention_rows.inl"

#if defined(REPRISE_ISA_HAS_BF16) && !defined(REPRISE_ISA_HAS_TILES)
#define REPRISE_ATTENDS_IN_PAIRS
#endif

/// The most rows that share their loads of keys and values, if their queries and results have room.
#if defined(REPRISE_ISA_HAS_TILES)
constexpr int64_t kMostRows = kMostAttentionRows;
#elif defined(REPRISE_ATTENDS_IN_PAIRS)
constexpr int64_t kMostRows = 64;
#else
constexpr int64_t kMostRows = kMaxAttentionRows;
#endif
/// The elements of the queries and of the results of all rows.
constexpr int64_t kMostQueries = int64_t{kMaxAttentionRows} * kMaxAttentionKeyDim;
constexpr int64_t kMostSums = int64_t{kMaxAttentionRows} * kMaxAttentionHeadDim;

/// The running softmax of each row.
struct AttentionState {
  alignas(64) float scores[kMaxAttentionRows][kChunk];  // of vector lanes
  alignas(64) float maxima[kMostRows];
  alignas(64) float corrections[kMostRows];
  alignas(64) float totals[kMostRows];
  alignas(64) float sums[kMostSums];  // rows value_dim apart
};

#include "reprise/kernels/attention/update_softmax.inl"

// clang-format off: later files use earlier ones.
#include "reprise/kernels/attention/chunk_attention.inl"
#include "reprise/kernels/attention/lane_tiles.inl"
#include "reprise/kernels/attention/lane_attention.inl"
#if defined(REPRISE_ISA_HAS_TILES) || defined(REPRISE_ATTENDS_IN_PAIRS)
#include "reprise/kernels/attention/weights.inl"
#include "reprise/kernels/attention/lane_softmax.inl"
#include "reprise/kernels/attention/span_limits.inl"
#endif
#if defined(REPRISE_ISA_HAS_TILES)
#include "reprise/kernels/attention/tile_sums.inl"
#include "reprise/kernels/attention/tile_attention.inl"
#elif defined(REPRISE_ATTENDS_IN_PAIRS)
#include "reprise/kernels/attention/pair_softmax.inl"
#include "reprise/kernels/attention/pair_attention.inl"
#include "reprise/kernels/attention/row_attention.inl"
#endif
// clang-format on

/// The number of rows that share their loads of keys and values. It depends on the model only.
template <typename T>
inline int64_t rows_at_once(const AttentionKernelArguments& a) {
  bool takes_many = false;
#if defined(REPRISE_ISA_HAS_TILES)
  if constexpr (__is_same(T, BFloat16)) takes_many = TileAttention::fits(a);
#elif defined(REPRISE_ATTENDS_IN_PAIRS)
  if constexpr (__is_same(T, BFloat16)) takes_many = PairAttention::fits(a) && a.biases == nullptr;
#endif
  if (!takes_many) return kMaxAttentionRows;
  const int64_t room = min_of(kMostQueries / a.head_dim, kMostSums / a.value_dim);
  return min_of(kMostRows, room / kMaxAttentionRows * kMaxAttentionRows);
}

/// Quantises a row of the result. The row is rounded to T first, because quantize_static would read
/// it as T.
template <typename T>
inline void quantize_out(const AttentionKernelArguments& a, const T* row, int64_t out_offset) {
  switch (a.out_type) {
    case AttentionOut::like_q:
      return;
    case AttentionOut::i8:
      quantize_columns(row, static_cast<int8_t*>(a.out) + out_offset, a.value_dim, *a.out_scale);
      return;
    case AttentionOut::f8e4m3:
      quantize_columns(
          row, static_cast<Float8E4M3*>(a.out) + out_offset, a.value_dim, *a.out_scale);
  }
}

/// Writes sums * scale to the row of the result at `out_offset`.
template <typename T>
inline void store_out(const AttentionKernelArguments& a,
                      const float* sums,
                      float row_scale,
                      int64_t out_offset) {
  T rounded[kMaxAttentionHeadDim];
  T* out = a.out_type == AttentionOut::like_q ? static_cast<T*>(a.out) + out_offset : rounded;
  const Vec scale = broadcast(row_scale);
  int64_t i = 0;
  for (; i + kLanes <= a.value_dim; i += kLanes) store(out + i, mul(load(sums + i), scale));
  if (i < a.value_dim) {
    const int rest = static_cast<int>(a.value_dim - i);
    store_first(out + i, mul(load_first(sums + i, rest), scale), rest);
  }
  quantize_out(a, rounded, out_offset);
}

inline void begin_states(const AttentionRows& rows, AttentionState& state) {
  const int count = rows.num_tokens * rows.num_heads;
  for (int r = 0; r < count; ++r) {
    state.maxima[r] = -__builtin_inff();
    state.totals[r] = 0.0F;
  }
  __builtin_memset(state.sums, 0, static_cast<size_t>(count * rows.a.value_dim) * sizeof(float));
}

// These are separate functions because of their large stack frames.
#ifdef REPRISE_ISA_HAS_TILES
__attribute__((noinline)) inline void attend_with_tiles(const AttentionRows& rows,
                                                        AttentionState& state,
                                                        int64_t begin,
                                                        int64_t end) {
  TileAttention(rows, state).run(begin, end);
}
#endif
#ifdef REPRISE_ATTENDS_IN_PAIRS
__attribute__((noinline)) inline void attend_with_pairs(const AttentionRows& rows,
                                                        AttentionState& state,
                                                        int64_t begin,
                                                        int64_t end) {
  PairAttention(rows, state).run(begin, end);
}
/// Attends to the same positions for two heads of one token, which read their rows in turns.
__attribute__((noinline)) inline void attend_in_turns(const AttentionRows (&heads)[2],
                                                      AttentionState (&states)[2],
                                                      int64_t begin,
                                                      int64_t end) {
  HeadInTurn first(heads[0], states[0]);
  HeadInTurn second(heads[1], states[1]);
  HeadInTurn::run_in_turns(first, second, begin, end);
}
__attribute__((noinline)) inline void attend_many_rows(const AttentionRows& rows,
                                                       AttentionState& state,
                                                       int64_t begin,
                                                       int64_t end) {
  RowAttention(rows, state).run(begin, end);
}
#endif

/// attend_positions() for queries of type T and a cache of type E. It is a separate function
/// because of its large stack frame.
template <typename T, typename E>
__attribute__((noinline)) void attend_with_lanes(const AttentionRows& rows,
                                                 AttentionState& state,
                                                 int64_t begin,
                                                 int64_t end) {
  LaneAttention<E> attention(rows, state);
  attention.template pack_queries<T>();
  attention.run(begin, end);
}

/// Adds positions [begin, end) to the state, which was initialised before. \pre begin < end; some
/// row sees each of these positions; no row sees a position of the chunk of `end` from `end` on;
/// and the state has no position of the chunk of `begin`
template <typename T>
inline void attend_positions(const AttentionRows& rows,
                             AttentionState& state,
                             int64_t begin,
                             int64_t end) {
#ifdef REPRISE_ISA_HAS_TILES
  if constexpr (__is_same(T, BFloat16)) {
    if (TileAttention::fits(rows.a)) return attend_with_tiles(rows, state, begin, end);
  }
#endif
#ifdef REPRISE_ATTENDS_IN_PAIRS
  if constexpr (__is_same(T, BFloat16)) {
    if (PairAttention::fits(rows.a)) {
      return RowAttention::fits(rows) ? attend_many_rows(rows, state, begin, end)
                                      : attend_with_pairs(rows, state, begin, end);
    }
  }
#endif
  switch (rows.a.cache.type) {
    case CacheType::like_model:
      return attend_with_lanes<T, T>(rows, state, begin, end);
    case CacheType::f8e4m3:
      return attend_with_lanes<T, Float8E4M3>(rows, state, begin, end);
    case CacheType::f8e5m2:
      return attend_with_lanes<T, Float8E5M2>(rows, state, begin, end);
    case CacheType::i8:
      return attend_with_lanes<T, int8_t>(rows, state, begin, end);
  }
}

inline float exp_of(float x) {
  float lanes[kLanes];
  store(lanes, exp(broadcast(x)));
  return lanes[0];
}

// clang-format off: later files use earlier ones.
#include "reprise/kernels/attention/attention_segments.inl"
#include "reprise/kernels/attention/shared_prefix.inl"
// clang-format on

/// The factor of the sums of a row. A sink is one more score, whose value is zero.
template <typename T>
inline float scale_of_sums(const AttentionKernelArguments& a,
                           int64_t head,
                           float largest,
                           float total) {
  if (a.sinks == nullptr) return 1.0F / total;
  const float sink = to_float(static_cast<const T*>(a.sinks)[head]);
  const float new_largest = sink > largest ? sink : largest;
  const float correction = exp_of(largest - new_largest);
  return correction / (total * correction + exp_of(sink - new_largest));
}

/// Writes the results of rows whose positions are all in the state.
template <typename T>
inline void store_rows(const AttentionRows& rows, const AttentionState& state) {
  for (int r = 0; r < rows.num_tokens * rows.num_heads; ++r) {
    const int64_t head = rows.first_head + r % rows.num_heads;
    store_out<T>(rows.a,
                 state.sums + r * rows.a.value_dim,
                 scale_of_sums<T>(rows.a, head, state.maxima[r], state.totals[r]),
                 rows.out_offset(r));
  }
}

template <typename T>
inline void attend(const AttentionRows& rows) {
  AttentionState state;
  const int64_t known = rows.a.shared_prefix_len;
  const int64_t begin = max_of(known, rows.window_begin(0));
  const int64_t end = rows.context(rows.num_tokens - 1);
  if (known >= kAttentionSegment) {
    attend_behind_prefix<T>(rows, state, end);
  } else {
    if (known > 0) {
      load_prefix_states(rows, kOpenSegment, state.sums, state.maxima, state.totals);
    } else {
      begin_states(rows, state);
    }
    attend_context<T>(rows, state, begin, end);
  }
  store_rows<T>(rows, state);
}

template <typename T>
inline void zero_rows(const AttentionKernelArguments& a,
                      int64_t kv_head,
                      int64_t token,
                      int64_t end) {
  for (; token < end; ++token) {
    for (int64_t head = kv_head * a.group_size; head < (kv_head + 1) * a.group_size; ++head) {
      const int64_t offset = token * a.out_token_stride + head * a.out_head_stride;
      if (a.out_type == AttentionOut::like_q) {
        const auto bytes = static_cast<size_t>(a.value_dim) * sizeof(T);
        __builtin_memset(static_cast<T*>(a.out) + offset, 0, bytes);
      } else {
        const T zeros[kMaxAttentionHeadDim] = {};  // a division by 0 makes them NaN
        quantize_out(a, zeros, offset);
      }
    }
  }
}

/// Returns the request that owns a token: the last request that starts at or before the token.
inline int64_t find_request(const AttentionKernelArguments& a, int64_t token) {
  int64_t low = 0;
  int64_t high = a.num_reqs;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (a.query_start_loc[middle] <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Tokens [token, end) belong to one request, whose last token is query_end - 1.
template <typename T>
inline void attend_request(const AttentionKernelArguments& a,
                           int64_t request,
                           int64_t query_end,
                           int64_t kv_head,
                           int64_t token,
                           int64_t end) {
  // The last token of the request sees all of its positions.
  const auto context = [&](int64_t t) {
    return a.seq_lens[request] - (sees_all(a) ? 0 : query_end - t - 1);
  };
  // In causal attention, the first tokens of a query that is longer than the context see nothing.
  // In bidirectional attention all tokens see the whole text, which may be that of an encoder and
  // shorter than the query.
  const int64_t num_positions = a.seq_lens[request];
  const int64_t seeing_from =
      a.is_bidirectional && num_positions > 0 ? token : query_end - num_positions;
  const int64_t first_seeing = min_of(end, max_of(token, seeing_from));
  zero_rows<T>(a, kv_head, token, first_seeing);
  token = first_seeing;
  const int64_t heads_at_once = min_of(a.group_size, rows_at_once<T>(a));
  const int64_t tokens_at_once = max_of(1, rows_at_once<T>(a) / a.group_size);
  for (; token < end; token += tokens_at_once) {
    for (int64_t head = 0; head < a.group_size; head += heads_at_once) {
      attend<T>(AttentionRows{a,
                              request,
                              kv_head,
                              token,
                              context(token),
                              static_cast<int>(min_of(tokens_at_once, end - token)),
                              static_cast<int>(kv_head * a.group_size + head),
                              static_cast<int>(min_of(heads_at_once, a.group_size - head))});
    }
  }
}

/// Returns the tokens that the `index`-th group of blocks of the grid computes. Later tokens of a
/// prompt see more positions. A worker gets neighbouring groups, so the groups alternate between
/// the beginning and the end of the tokens: each pair of groups is about as much work as any other
/// pair.
inline int64_t token_group(int64_t index, int64_t num_groups) {
  return index % 2 == 0 ? index / 2 : num_groups - 1 - index / 2;
}

template <typename T>
void run_attention(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const AttentionKernelArguments*>(args);
  const int64_t num_groups = ceil_div(a.num_tokens, a.tokens_per_block);
  const int64_t num_scheduled =
      a.num_reqs == 0 ? 0 : max_of(0, min_of(a.num_tokens, a.query_start_loc[a.num_reqs]));
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t kv_head = block % a.kv_heads;
    int64_t token = token_group(block / a.kv_heads, num_groups) * a.tokens_per_block;
    const int64_t end = min_of(token + a.tokens_per_block, a.num_tokens);
    while (token < min_of(end, num_scheduled)) {
      const int64_t request = find_request(a, token);
      const int64_t query_end = a.query_start_loc[request + 1];
      const int64_t stop = min_of(min_of(end, num_scheduled), query_end);
      attend_request<T>(a, request, query_end, kv_head, token, stop);
      token = stop;
    }
    zero_rows<T>(a, kv_head, token, end);
  }
}

/// Every request has query_len tokens, so a block is one request and one key/value head.
template <typename T>
void run_uniform_attention(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const AttentionKernelArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t kv_head = block % a.kv_heads;
    const int64_t request = block / a.kv_heads;
    const int64_t begin = min_of(request * a.query_len, a.num_tokens);
    const int64_t end = min_of(begin + a.query_len, a.num_tokens);
    if (request < a.num_reqs) attend_request<T>(a, request, end, kv_head, begin, end);
    // The remaining rows are padding.
    if (request + 1 >= a.num_reqs) {
      zero_rows<T>(a, kv_head, a.num_reqs == 0 ? 0 : end, a.num_tokens);
    }
  }
}

#include "reprise/kernels/attention/planned_attention.inl"
#include "reprise/kernels/attention/split_attention.inl"
