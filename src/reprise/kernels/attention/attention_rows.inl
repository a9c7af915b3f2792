// The number of positions that one softmax update covers. Chunks start at multiples of it, for
// every block size, window and query, so the order of a row's sums depends only on its own context.
constexpr int kChunk = 32;

/// Query rows that read the same cache rows together: some tokens of one request times some heads
/// of one group. Row = token * num_heads + head.
template <typename T>
struct AttentionRows {
  const AttentionKernelArguments& a;
  int64_t request;
  int64_t kv_head;
  int64_t first_token;  // in the batch
  /// Positions that the first token sees. Each later token sees one more, or as many if attention
  /// is bidirectional.
  int64_t first_context;
  int num_tokens;
  int first_head;  // in the batch
  int num_heads;

  int64_t context(int token) const { return first_context + (a.is_bidirectional ? 0 : token); }
  int64_t window_begin(int token) const {
    if (a.chunk_size > 0) return (context(token) - 1) / a.chunk_size * a.chunk_size;
    return a.sliding_window > 0 ? max_of(0, context(token) - a.sliding_window) : 0;
  }
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

/// Keys and values of one chunk. Entries outside the valid positions repeat a valid entry: their
/// products are computed and dropped, so no other table entry or cache row is read.
template <typename T>
struct ChunkPointers {
  const T* keys[kChunk];
  const T* values[kChunk];
  // By position, for the codes of a cache of eight bits; nullptr: keys and values are numbers.
  const float* key_scales = nullptr;
  const float* value_scales = nullptr;

  ChunkPointers() = default;
  ChunkPointers(const AttentionRows<T>& rows, int64_t chunk, int begin, int end) {
    const int64_t block_size = rows.a.block_size;
    int64_t block = (chunk + begin) / block_size;
    int64_t slot = (chunk + begin) % block_size;
    int64_t start = rows.block_offset(block);
    for (int i = begin; i < end; ++i, ++slot) {
      if (slot == block_size) {
        start = rows.block_offset(++block);
        slot = 0;
      }
      const int64_t offset = start + slot * rows.a.head_dim;
      keys[i] = static_cast<const T*>(rows.a.key_cache) + offset;
      values[i] = static_cast<const T*>(rows.a.value_cache) + offset;
    }
    for (int i = 0; i < begin; ++i) keys[i] = keys[begin];
    for (int i = end; i < kChunk; ++i) keys[i] = keys[end - 1];
  }

  /// Cache blocks are scattered in memory, and each is too short for the hardware prefetcher.
  void prefetch(int begin, int end, const AttentionKernelArguments& a) const {
    constexpr int64_t kLine = 64 / sizeof(T);
    const int64_t value_dim = keys[begin] == values[begin] ? 0 : a.value_dim;
    for (int i = begin; i < end; ++i) {
      for (int64_t column = 0; column < a.head_dim; column += kLine) {
        __builtin_prefetch(keys[i] + column);
      }
      for (int64_t column = 0; column < value_dim; column += kLine) {
        __builtin_prefetch(values[i] + column);
      }
    }
  }
};
