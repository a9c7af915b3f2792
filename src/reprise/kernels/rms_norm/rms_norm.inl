// The squares are added to two sums in turn, which are added at the end. The order depends only on
// the width.
template <typename T>
inline float sum_of_squares(const T* x, int64_t width) {
  Vec first = zero();
  Vec second = zero();
  int64_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    const Vec a = load(x + i);
    const Vec b = load(x + i + kLanes);
    first = fma(a, a, first);
    second = fma(b, b, second);
  }
  for (; i < width; i += kLanes) {
    const Vec a =
        width - i >= kLanes ? load(x + i) : load_first(x + i, static_cast<int>(width - i));
    first = fma(a, a, first);
  }
  return sum(add(first, second));
}

template <typename T>
inline float rms_norm_scale(const T* x, int64_t width, float epsilon) {
  const float mean = sum_of_squares(x, width) / static_cast<float>(width);
  return 1.0F / square_root(mean + epsilon);
}

// Scales any range of columns of a row whose scale is known.
template <typename T>
inline void scale_columns(const T* x, const T* weight, T* out, int64_t width, float row_scale) {
  const Vec scale = broadcast(row_scale);
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    store(out + i, mul(mul(load(x + i), scale), load(weight + i)));
  }
  if (i < width) {
    const int rest = static_cast<int>(width - i);
    store_first(
        out + i, mul(mul(load_first(x + i, rest), scale), load_first(weight + i, rest)), rest);
  }
}

template <typename T>
inline void rms_norm_row(const T* x, const T* weight, T* out, int64_t width, float epsilon) {
  scale_columns(x, weight, out, width, rms_norm_scale(x, width, epsilon));
}

// `norm_row(x, weight, out, width, epsilon)` computes a row.
template <typename T, typename NormRow>
REPRISE_INLINE void norm_rows(const void* args,
                              device::BlockRange blocks,
                              const NormRow& norm_row) {
  const auto& a = *static_cast<const RmsNormArguments*>(args);
  const int64_t width = a.tiles.width;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      norm_row(static_cast<const T*>(a.x) + row_offset(a.x_layout, row),
               static_cast<const T*>(a.weight),
               static_cast<T*>(a.out) + row * width,
               width,
               a.epsilon);
    }
  }
}

template <typename T>
void run_rms_norm(const void* args, device::BlockRange blocks) noexcept {
  norm_rows<T>(args, blocks, rms_norm_row<T>);
}
