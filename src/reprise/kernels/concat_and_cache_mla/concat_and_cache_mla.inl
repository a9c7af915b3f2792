template <typename T>
void run_concat_and_cache_mla(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ConcatAndCacheMlaArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t first = block * a.tokens_per_block;
    const int64_t last = min_of(first + a.tokens_per_block, a.num_tokens);
    for (int64_t token = first; token < last; ++token) {
      const int64_t slot = a.slot_mapping[token];
      // A write to a slot beyond the cache would overwrite other memory.
      if (slot < 0 || slot >= a.num_slots) continue;
      T* row = static_cast<T*>(a.kv_cache) + slot * (a.latent_size + a.rope_size);
      __builtin_memcpy(row,
                       static_cast<const T*>(a.kv_c) + token * a.kv_c_stride,
                       static_cast<size_t>(a.latent_size) * sizeof(T));
      __builtin_memcpy(row + a.latent_size,
                       static_cast<const T*>(a.k_pe) + token * a.k_pe_stride,
                       static_cast<size_t>(a.rope_size) * sizeof(T));
    }
  }
}
