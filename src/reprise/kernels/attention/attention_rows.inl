// The number of positions that one softmax update covers. Chunks start at multiples of this number
// for every block size, window and query, so the order of a row's sums depends only on the context
// of the row.
constexpr int kChunk = 32;

/// Whether each token sees all positions of its request.
inline bool sees_all(const AttentionKernelArguments& a) {
  return a.is_bidirectional != 0 && a.sliding_window == 0;
}

/// Query rows that read the same cache rows together: some tokens of one request times some heads
/// of one group. Row = token * num_heads + head.
struct AttentionRows {
  const AttentionKernelArguments& a;
  int64_t request;
  int64_t kv_head;
  int64_t first_token;  // in the batch
  /// The number of positions up to that of the first token; each further token has one more. If
  /// sees_all(), the number of all positions of the request.
  int64_t first_context;
  int num_tokens;
  int first_head;  // in the batch
  int num_heads;

  /// Returns the number of positions up to that of a token.
  int64_t own_context(int token) const { return first_context + (sees_all(a) ? 0 : token); }
  /// A token sees the positions from window_begin() to context(). Both grow from token to token.
  int64_t context(int token) const {
    const int64_t own = own_context(token);
    if (a.is_bidirectional == 0 || a.sliding_window == 0) return own;
    return min_of(a.seq_lens[request], own + a.sliding_window - 1);
  }
  int64_t window_begin(int token) const {
    if (a.chunk_size > 0) return (own_context(token) - 1) / a.chunk_size * a.chunk_size;
    return a.sliding_window > 0 ? max_of(0, own_context(token) - a.sliding_window) : 0;
  }
  template <typename T>
  const T* q(int row) const {
    return static_cast<const T*>(a.q) + (first_token + row / num_heads) * a.q_token_stride +
           (first_head + row % num_heads) * a.q_head_stride;
  }
  int64_t out_offset(int row) const {
    return (first_token + row / num_heads) * a.out_token_stride +
           (first_head + row % num_heads) * a.out_head_stride;
  }
  /// The start of the keys or values of a cache block.
  int64_t block_offset(int64_t block_index) const {
    const int64_t block = a.block_table[request * a.block_table_stride + block_index];
    return block * a.block_stride + kv_head * a.kv_head_stride;
  }
};

constexpr int64_t kCacheLine = 64;  // bytes
constexpr int kPrefetchLevel = 2;   // the second-level cache

template <typename E>
constexpr int64_t kLineSize = kCacheLine / static_cast<int64_t>(sizeof(E));  // elements

/// Lines of memory that will be read soon. The loops over a chunk prefetch the lines of the next
/// chunk a few at a time: if all were prefetched at once, the loads of the current chunk would
/// wait.
struct CacheLines {
  const char* row = nullptr;  // the address of the pointer to the next row, which has any type
  const char* last_row = nullptr;
  int64_t row_bytes = 0;
  int64_t lines_at_once = 1;
  int64_t byte = 0;

  template <int kLevel = kPrefetchLevel>
  REPRISE_INLINE void prefetch_next() {
    for (int64_t i = 0; i < lines_at_once && row != last_row; ++i) {
      const char* bytes;
      __builtin_memcpy(&bytes, row, sizeof bytes);
      __builtin_prefetch(bytes + byte, 0, kLevel);
      byte += kCacheLine;
      if (byte < row_bytes) continue;
      byte = 0;
      row += sizeof bytes;
    }
  }
};

/// The keys and values of one chunk of kLength positions of a cache with elements of type E:
/// numbers, or codes of eight bits. Pointers outside the valid positions repeat a valid one: their
/// products are computed and dropped, so no other table entry or cache row is read.
template <typename E, int kLength = kChunk>
struct ChunkPointers {
  const E* keys[kLength];
  const E* values[kLength];

  ChunkPointers() = default;
  ChunkPointers(const AttentionRows& rows, int64_t chunk, int begin, int end) {
    const int64_t block_size = rows.a.block_size;
    const int64_t row_size = row_bytes(rows.a) / static_cast<int64_t>(sizeof(E));
    int64_t block = (chunk + begin) / block_size;
    int64_t slot = (chunk + begin) % block_size;
    for (int i = begin; i < end;) {
      const int64_t offset = rows.block_offset(block) + slot * row_size;
      const E* key = static_cast<const E*>(rows.a.key_cache) + offset;
      const E* value = static_cast<const E*>(rows.a.value_cache) + offset;
      const int last = static_cast<int>(min_of(end, i + block_size - slot));
      for (; i < last; ++i, key += row_size, value += row_size) {
        keys[i] = key;
        values[i] = value;
      }
      ++block;
      slot = 0;
    }
    for (int i = 0; i < begin; ++i) repeat(begin, i);
    for (int i = end; i < kLength; ++i) repeat(end - 1, i);
  }

  /// The lines of the first `count` keys. A tile of scores prefetches one line with each element.
  CacheLines key_lines(int count, const AttentionKernelArguments& a) const {
    return lines_of(keys, count, a);
  }
  /// Empty if the values are parts of the keys.
  CacheLines value_lines(int count, const AttentionKernelArguments& a) const {
    return lines_of(values, keys[0] == values[0] ? 0 : count, a);
  }

 private:
  static int64_t row_bytes(const AttentionKernelArguments& a) {
    return sizeof(E) == 1 ? a.cache.row_bytes : a.head_dim * static_cast<int64_t>(sizeof(E));
  }
  static CacheLines lines_of(const E* const* rows, int count, const AttentionKernelArguments& a) {
    return {.row = reinterpret_cast<const char*>(rows),
            .last_row = reinterpret_cast<const char*>(rows + count),
            .row_bytes = row_bytes(a),
            .lines_at_once = sizeof(E) > 2 ? 2 : 1};
  }
  void repeat(int from, int to) {
    keys[to] = keys[from];
    values[to] = values[from];
  }
};
