template <typename T>
inline T* cache_row(const RopeAndCache& a, void* cache, int64_t slot, int64_t head) {
  const int64_t row =
      (slot / a.block_size * a.kv_heads + head) * a.block_size + slot % a.block_size;
  return static_cast<T*>(cache) + row * a.head_dim;
}

// The norm is stored, rounded, where its rotation will lie: no head is too wide for that.
template <typename T>
inline void norm_and_rope_head(
    const RopeAndCache& a, int64_t token, const T* x, const void* norm, T* out) {
  const float* table =
      rope_table_row(a.cos_sin, a.positions[token], a.max_position, a.table_stride);
  const int64_t half = a.head_dim / 2;
  if (norm != nullptr) {
    rms_norm_row(x, static_cast<const T*>(norm), out, a.head_dim, a.epsilon);
    x = out;
  }
  rope_head(x, out, table, table + half, half);
}

// Brings one head of a token to where it belongs; `head` counts those of q, then of k, then of v.
template <typename T>
inline void place_head(const RopeAndCache& a, int64_t token, int64_t head, const T* x) {
  if (head < a.heads) {
    T* out = static_cast<T*>(a.q_out) + (token * a.heads + head) * a.head_dim;
    norm_and_rope_head(a, token, x, a.q_norm, out);
    return;
  }
  const int64_t slot = a.slot_mapping[token];
  // A slot beyond the cache would write into foreign memory.
  if (slot < 0 || slot >= a.num_slots) return;
  head -= a.heads;
  if (head < a.kv_heads) {
    norm_and_rope_head(a, token, x, a.k_norm, cache_row<T>(a, a.key_cache, slot, head));
  } else {
    T* out = cache_row<T>(a, a.value_cache, slot, head - a.kv_heads);
    __builtin_memcpy(out, x, static_cast<size_t>(a.head_dim) * sizeof(T));
  }
}

template <typename T>
inline const T* head_of(const StridedHeads& heads, int64_t token, int64_t head) {
  return static_cast<const T*>(heads.x) + token * heads.token_stride + head * heads.head_stride;
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
      for (int64_t h = 0; h < heads; ++h) place_head(a.to, token, h, head_of<T>(a.q, token, h));
      for (int64_t h = 0; h < kv_heads; ++h) {
        place_head(a.to, token, heads + h, head_of<T>(a.k, token, h));
        place_head(a.to, token, heads + kv_heads + h, head_of<T>(a.v, token, h));
      }
    }
  }
}
