struct IdentityTerm {
  REPRISE_INLINE Vec operator()(Vec x) const { return x; }
};
struct SquaredDifference {
  float center;
  REPRISE_INLINE Vec operator()(Vec x) const {
    const Vec difference = sub(x, broadcast(center));
    return mul(difference, difference);
  }
};

// The sum of term(x) over a row, in an order that depends only on the width. The missing elements
// of the last vector count as `padding`, whose term must be 0.
template <typename T, typename Term>
inline float sum_of_row(const T* x, int64_t width, float padding, const Term& term) {
  Vec first = zero();
  Vec second = zero();
  int64_t i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    first = add(first, term(load(x + i)));
    second = add(second, term(load(x + i + kLanes)));
  }
  for (; i < width; i += kLanes) {
    const int count = lanes_at(i, width);
    first = add(first, term(keep_lanes(load_some(x + i, count), 0, count, padding)));
  }
  return sum(add(first, second));
}

template <typename T>
inline void layer_norm_row(
    const T* x, const T* weight, const T* bias, T* out, int64_t width, float epsilon) {
  const auto size = static_cast<float>(width);
  const float mean = sum_of_row(x, width, 0.0F, IdentityTerm{}) / size;
  const float variance = sum_of_row(x, width, mean, SquaredDifference{mean}) / size;
  const Vec center = broadcast(mean);
  const Vec scale = broadcast(1.0F / square_root(variance + epsilon));
  for (int64_t i = 0; i < width; i += kLanes) {
    const int count = lanes_at(i, width);
    const Vec normed = mul(sub(load_some(x + i, count), center), scale);
    Vec result = mul(normed, load_some(weight + i, count));
    if (bias != nullptr) result = add(result, load_some(bias + i, count));
    store_some(out + i, result, count);
  }
}

template <typename T>
void run_layer_norm(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const LayerNormArguments*>(args);
  const int64_t width = a.tiles.width;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      layer_norm_row(static_cast<const T*>(a.x) + row_offset(a.x_layout, row),
                     static_cast<const T*>(a.weight),
                     static_cast<const T*>(a.bias),
                     static_cast<T*>(a.out) + row * width,
                     width,
                     a.epsilon);
    }
  }
}
