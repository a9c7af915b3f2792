// The row of a head in its cache; nullptr: the head is not stored. `head` counts the heads of q,
// then of k, then of v. \pre the head belongs to k or v
inline char* row_of_head(const RopeAndCache& a, int64_t token, int64_t head) {
  const int64_t slot = a.slot_mapping[token];
  // A write to a slot beyond the cache would overwrite other memory.
  if (slot < 0 || slot >= a.num_slots) return nullptr;
  const bool is_key = head < a.heads + a.kv_heads;
  return static_cast<char*>(is_key ? a.key_cache : a.value_cache) +
         cache_offset(slot,
                      head - a.heads - (is_key ? 0 : a.kv_heads),
                      a.kv_heads,
                      a.block_size,
                      a.rows.row_bytes);
}

// The destination of a head; nullptr: the head is not stored. \pre not is_quantized()
template <typename T>
inline T* place_of_head(const RopeAndCache& a, int64_t token, int64_t head) {
  if (head < a.heads) return static_cast<T*>(a.q_out) + (token * a.heads + head) * a.head_dim;
  return reinterpret_cast<T*>(row_of_head(a, token, head));
}

inline bool is_quantized(const RopeAndCache& a, int64_t head) {
  return head >= a.heads && a.rows.type != CacheType::like_model;
}

inline const void* norm_of_head(const RopeAndCache& a, int64_t head) {
  if (head < a.heads) return a.q_norm;
  return head < a.heads + a.kv_heads ? a.k_norm : nullptr;
}

// Copies a head, after its norm, to its destination, and rotates it if it belongs to q or k. The
// two may be the same memory.
template <typename T>
inline void place_head(const RopeAndCache& a, int64_t token, int64_t head, const T* x, T* place) {
  if (head < a.heads + a.kv_heads) {
    const float* table =
        rope_table_row(a.cos_sin, a.positions[token], a.max_position, a.table_stride);
    const int64_t half = a.head_dim / 2;
    rope_head(x, place, table, table + half, half);
  } else {
    __builtin_memcpy(place, x, static_cast<size_t>(a.head_dim) * sizeof(T));
  }
}

// Writes a head, after its norm, to its row of a cache of eight bits, rotated if it belongs to k.
template <typename T>
inline void quantize_head(const RopeAndCache& a, int64_t token, int64_t head, const T* x) {
  char* row = row_of_head(a, token, head);
  if (row == nullptr) return;
  T rotated[kMaxQuantizedHeadDim];
  const bool is_key = head < a.heads + a.kv_heads;
  if (is_key) place_head(a, token, head, x, rotated);
  write_cache_row(
      a.rows, is_key ? rotated : x, a.head_dim, is_key ? a.rows.k_scale : a.rows.v_scale, row);
}

// The heads of one token of k or of v, into a cache of eight bits.
template <typename T>
inline void quantize_heads(const RopeAndCache& a,
                           int64_t token,
                           int64_t first_head,
                           int64_t num_heads,
                           const StridedHeads& heads) {
  const T* x = static_cast<const T*>(heads.x) + token * heads.token_stride;
  const auto* norm = static_cast<const T*>(norm_of_head(a, first_head));
  T normed[kMaxQuantizedHeadDim];
  for (int64_t h = 0; h < num_heads; ++h) {
    const T* head = x + h * heads.head_stride;
    if (norm != nullptr) rms_norm_row(head, norm, normed, a.head_dim, a.epsilon);
    quantize_head<T>(a, token, first_head + h, norm != nullptr ? normed : head);
  }
}

// The heads of one token of q, of k or of v. The rounded norms are stored at the destination of the
// rotated heads. All norms come first: one norm is a long chain of dependent operations, and the
// norms of several heads overlap.
template <typename T>
inline void place_heads(const RopeAndCache& a,
                        int64_t token,
                        int64_t first_head,
                        int64_t num_heads,
                        const StridedHeads& heads) {
  if (is_quantized(a, first_head)) {
    return quantize_heads<T>(a, token, first_head, num_heads, heads);
  }
  const T* x = static_cast<const T*>(heads.x) + token * heads.token_stride;
  int64_t head_stride = heads.head_stride;
  T* place = place_of_head<T>(a, token, first_head);
  if (place == nullptr) return;
  const bool is_query = first_head < a.heads;
  const int64_t place_stride = is_query ? a.head_dim : a.block_size * a.head_dim;
  if (const void* norm = norm_of_head(a, first_head); norm != nullptr) {
    for (int64_t h = 0; h < num_heads; ++h) {
      rms_norm_row(x + h * head_stride,
                   static_cast<const T*>(norm),
                   place + h * place_stride,
                   a.head_dim,
                   a.epsilon);
    }
    x = place;
    head_stride = place_stride;
  }
  for (int64_t h = 0; h < num_heads; ++h) {
    place_head(a, token, first_head + h, x + h * head_stride, place + h * place_stride);
  }
}

template <typename T>
void run_rope_kv_write(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const RopeKvWriteArguments*>(args);
  const int64_t heads = a.to.heads;
  const int64_t kv_heads = a.to.kv_heads;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t first = block * a.tokens_per_block;
    const int64_t last = min_of(first + a.tokens_per_block, a.num_tokens);
    for (int64_t token = first; token < last; ++token) {
      place_heads<T>(a.to, token, 0, heads, a.q);
      place_heads<T>(a.to, token, heads, kv_heads, a.k);
      place_heads<T>(a.to, token, heads + kv_heads, kv_heads, a.v);
    }
  }
}
