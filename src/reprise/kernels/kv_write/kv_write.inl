inline void run_kv_write(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const KvWriteArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t first = block * a.tokens_per_block;
    const int64_t last = min_of(first + a.tokens_per_block, a.num_tokens);
    for (int64_t token = first; token < last; ++token) {
      const int64_t slot = a.slot_mapping[token];
      // A write to a slot beyond the cache would change foreign memory.
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
