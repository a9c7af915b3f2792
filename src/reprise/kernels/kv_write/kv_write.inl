inline void run_kv_write(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const KvWriteArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t first = block * a.tokens_per_block;
    const int64_t last = min_of(first + a.tokens_per_block, a.num_tokens);
    for (int64_t token = first; token < last; ++token) {
      const int64_t slot = a.slot_mapping[token];
      // A write to a slot beyond the cache would overwrite other memory.
      if (slot < 0 || slot >= a.num_slots) continue;
      const char* k = static_cast<const char*>(a.k) + token * a.k_token_stride;
      const char* v = static_cast<const char*>(a.v) + token * a.v_token_stride;
      for (int64_t head = 0; head < a.kv_heads; ++head) {
        const int64_t row =
            (slot / a.block_size * a.kv_heads + head) * a.block_size + slot % a.block_size;
        const auto bytes = static_cast<size_t>(a.head_bytes);
        __builtin_memcpy(static_cast<char*>(a.key_cache) + row * a.head_bytes,
                         k + head * a.k_head_stride,
                         bytes);
        __builtin_memcpy(static_cast<char*>(a.value_cache) + row * a.head_bytes,
                         v + head * a.v_head_stride,
                         bytes);
      }
    }
  }
}

// The byte at which the row of a slot and a head begins in a cache.
inline int64_t cache_offset(
    int64_t slot, int64_t head, int64_t kv_heads, int64_t block_size, int64_t row_bytes) {
  return ((slot / block_size * kv_heads + head) * block_size + slot % block_size) * row_bytes;
}

template <typename T, typename Q>
inline void write_quantized_row(
    const CacheRows& rows, const T* x, int64_t head_dim, float scale, char* row) {
  auto* codes = reinterpret_cast<Q*>(row);
  if (rows.has_row_scales == 0) return quantize_columns(x, codes, head_dim, scale);
  scale = quantize_row<T>(StoredRow<T>{x}, codes, head_dim);
  __builtin_memcpy(row + head_dim, &scale, sizeof scale);
}

// Writes one head of k or v into its row of a cache. `scale`: that of the cache.
template <typename T>
inline void write_cache_row(
    const CacheRows& rows, const T* x, int64_t head_dim, float scale, char* row) {
  switch (rows.type) {
    case CacheType::like_model:
      __builtin_memcpy(row, x, static_cast<size_t>(head_dim) * sizeof(T));
      return;
    case CacheType::f8e4m3:
      return write_quantized_row<T, Float8E4M3>(rows, x, head_dim, scale, row);
    case CacheType::f8e5m2:
      return write_quantized_row<T, Float8E5M2>(rows, x, head_dim, scale, row);
    case CacheType::i8:
      return write_quantized_row<T, int8_t>(rows, x, head_dim, scale, row);
  }
}

template <typename T>
void run_kv_write_quant(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const KvWriteQuantArguments*>(args);
  const int32_t* slots = a.slot_mapping;
  const auto write = [&](void* cache, int64_t slot, int64_t head, const T* x, float scale) {
    const int64_t offset = cache_offset(slot, head, a.kv_heads, a.block_size, a.rows.row_bytes);
    write_cache_row(a.rows, x, a.head_dim, scale, static_cast<char*>(cache) + offset);
  };
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t first = block * a.tokens_per_block;
    const int64_t last = min_of(first + a.tokens_per_block, a.num_tokens);
    for (int64_t token = first; token < last; ++token) {
      const int64_t slot = slots[token];
      if (slot < 0 || slot >= a.num_slots) continue;
      const T* k = static_cast<const T*>(a.k) + token * a.k_token_stride;
      const T* v = static_cast<const T*>(a.v) + token * a.v_token_stride;
      for (int64_t head = 0; head < a.kv_heads; ++head) {
        write(a.key_cache, slot, head, k + head * a.k_head_stride, a.rows.k_scale);
        write(a.value_cache, slot, head, v + head * a.v_head_stride, a.rows.v_scale);
      }
    }
  }
}
