/// The rows of one chunk of a cache of eight bits. Entries outside the valid positions repeat a
/// valid entry, as in ChunkPointers.
struct QuantizedChunk {
  const char* keys[kChunk];
  const char* values[kChunk];

  template <typename T>
  QuantizedChunk(const AttentionRows<T>& rows, int64_t chunk, int begin, int end) {
    const AttentionKernelArguments& a = rows.a;
    const int32_t* blocks = a.block_table + rows.request * a.block_table_stride;
    for (int i = begin; i < end; ++i) {
      const int64_t position = chunk + i;
      const int64_t slot =
          int64_t{blocks[position / a.block_size]} * a.block_size + position % a.block_size;
      const int64_t offset =
          cache_offset(slot, rows.kv_head, a.kv_heads, a.block_size, a.cache.row_bytes);
      keys[i] = static_cast<const char*>(a.key_cache) + offset;
      values[i] = static_cast<const char*>(a.value_cache) + offset;
    }
    for (int i = 0; i < begin; ++i) {
      keys[i] = keys[begin];
      values[i] = values[begin];
    }
    for (int i = end; i < kChunk; ++i) {
      keys[i] = keys[end - 1];
      values[i] = values[end - 1];
    }
  }

  void prefetch(int begin, int end, int64_t row_bytes) const {
    for (int i = begin; i < end; ++i) {
      for (int64_t byte = 0; byte < row_bytes; byte += 64) {
        __builtin_prefetch(keys[i] + byte);
        __builtin_prefetch(values[i] + byte);
      }
    }
  }
};

/// The codes of a chunk as elements of T, which has all of them exactly, and their scales.
template <typename T>
struct DecodedChunk {
  alignas(64) T keys[kChunk * kMaxAttentionHeadDim];  // rows head_dim apart
  alignas(64) T values[kChunk * kMaxAttentionHeadDim];
  alignas(64) float key_scales[kChunk];
  alignas(64) float value_scales[kChunk];
};

template <typename Q, typename T>
inline void decode_codes(const char* row, T* out, int64_t head_dim) {
  const auto* codes = reinterpret_cast<const Q*>(row);
  int64_t i = 0;
  for (; i + kLanes <= head_dim; i += kLanes) store(out + i, load(codes + i));
  for (; i < head_dim; ++i) store_element(out + i, to_float(codes[i]));
}

template <typename Q, typename T>
inline void decode_rows(const CacheRows& cache,
                        const char* const* rows,
                        float scale,
                        int64_t head_dim,
                        T* out,
                        float* scales) {
  for (int i = 0; i < kChunk; ++i) {
    decode_codes<Q>(rows[i], out + i * head_dim, head_dim);
    scales[i] = scale;
    if (cache.has_row_scales != 0) __builtin_memcpy(scales + i, rows[i] + head_dim, sizeof(float));
  }
}

template <typename T>
inline void decode_rows(const CacheRows& cache,
                        const char* const* rows,
                        float scale,
                        int64_t head_dim,
                        T* out,
                        float* scales) {
  switch (cache.type) {
    case CacheType::like_model:
      return;
    case CacheType::f8e4m3:
      return decode_rows<Float8E4M3>(cache, rows, scale, head_dim, out, scales);
    case CacheType::f8e5m2:
      return decode_rows<Float8E5M2>(cache, rows, scale, head_dim, out, scales);
    case CacheType::i8:
      return decode_rows<int8_t>(cache, rows, scale, head_dim, out, scales);
  }
}

/// attend_positions() for a cache of eight bits. Each row of the cache is decoded once for all
/// query rows. Scales multiply scores and weights, so no product is rounded to T.
template <typename T>
inline void attend_quantized_positions(const AttentionRows<T>& rows,
                                       AttentionState& state,
                                       const T* const* queries,
                                       int64_t begin,
                                       int64_t end) {
  const CacheRows& cache = rows.a.cache;
  const int64_t head_dim = rows.a.head_dim;
  DecodedChunk<T> decoded;
  ChunkPointers<T> pointers;
  for (int i = 0; i < kChunk; ++i) {
    pointers.keys[i] = decoded.keys + i * head_dim;
    pointers.values[i] = decoded.values + i * head_dim;
  }
  pointers.key_scales = decoded.key_scales;
  pointers.value_scales = decoded.value_scales;
  const auto begin_in = [&](int64_t chunk) { return static_cast<int>(max_of(0, begin - chunk)); };
  const auto end_in = [&](int64_t chunk) { return static_cast<int>(min_of(kChunk, end - chunk)); };
  int64_t chunk = begin / kChunk * kChunk;
  QuantizedChunk stored(rows, chunk, begin_in(chunk), end_in(chunk));
  for (;;) {
    decode_rows(cache, stored.keys, cache.k_scale, head_dim, decoded.keys, decoded.key_scales);
    decode_rows(
        cache, stored.values, cache.v_scale, head_dim, decoded.values, decoded.value_scales);
    const int first = begin_in(chunk);
    const int last = end_in(chunk);
    const bool is_last = chunk + kChunk >= end;
    if (!is_last) {
      stored = QuantizedChunk(rows, chunk + kChunk, 0, end_in(chunk + kChunk));
      stored.prefetch(0, end_in(chunk + kChunk), cache.row_bytes);
    }
    attend_chunk(rows, state, queries, pointers, chunk, first, last);
    if (is_last) return;
    chunk += kChunk;
  }
}
