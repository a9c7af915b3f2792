// (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin), where x1 and x2 are the halves of a head.
template <typename T>
inline void rope_head(const T* x, T* out, const float* cosines, const float* sines, int64_t half) {
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const Vec x1 = load(x + i);
    const Vec x2 = load(x + half + i);
    const Vec c = load(cosines + i);
    const Vec s = load(sines + i);
    store(out + i, sub(mul(x1, c), mul(x2, s)));
    store(out + half + i, add(mul(x2, c), mul(x1, s)));
  }
  if (i < half) {
    const int rest = static_cast<int>(half - i);
    const Vec x1 = load_first(x + i, rest);
    const Vec x2 = load_first(x + half + i, rest);
    const Vec c = load_first(cosines + i, rest);
    const Vec s = load_first(sines + i, rest);
    store_first(out + i, sub(mul(x1, c), mul(x2, s)), rest);
    store_first(out + half + i, add(mul(x2, c), mul(x1, s)), rest);
  }
}

// The position is clamped, because a padding row may have a stale position outside the table.
inline const float* rope_table_row(const float* cos_sin,
                                   int64_t position,
                                   int64_t max_position,
                                   int64_t table_stride) {
  return cos_sin + max_of(0, min_of(position, max_position - 1)) * table_stride;
}

template <typename T>
inline void rope_token(const RopeSide& side, int64_t token, const float* table, int64_t head_dim) {
  const T* x = static_cast<const T*>(side.x) + token * side.token_stride;
  T* out = static_cast<T*>(side.out) + token * side.heads * head_dim;
  const int64_t half = head_dim / 2;
  for (int64_t head = 0; head < side.heads; ++head) {
    rope_head(x + head * side.head_stride, out + head * head_dim, table, table + half, half);
  }
}

template <typename T>
void run_rope(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const RopeArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t first = block * a.tokens_per_block;
    const int64_t last = min_of(first + a.tokens_per_block, a.num_tokens);
    for (int64_t token = first; token < last; ++token) {
      const float* table =
          rope_table_row(a.cos_sin, a.positions[token], a.max_position, a.table_stride);
      rope_token<T>(a.q, token, table, a.head_dim);
      rope_token<T>(a.k, token, table, a.head_dim);
    }
  }
}
