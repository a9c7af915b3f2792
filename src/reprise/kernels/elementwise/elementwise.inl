// Functions of one element, as types: the kernels below and activation_and_mul take them as
// parameters.
struct GeluFunction {
  REPRISE_INLINE Vec operator()(Vec x) const {
    const Vec half = mul(x, broadcast(0.5F));
    return fma(half, erf(mul(x, broadcast(0.70710678118654752F))), half);
  }
};
// x * (1 + tanh(u)) / 2 is x / (1 + exp(-2 u)), which has no cancellation.
struct GeluTanhFunction {
  REPRISE_INLINE Vec operator()(Vec x) const {
    const Vec square = mul(x, x);
    // -2 * sqrt(2 / pi) * (1 + 0.044715 x^2)
    const Vec factor = fma(square, broadcast(-0.0713548162726009F), broadcast(-1.59576912160573F));
    return div(x, add(broadcast(1.0F), exp(mul(x, factor))));
  }
};
struct ReluFunction {
  // The constant is the first operand, so that a NaN stays a NaN.
  REPRISE_INLINE Vec operator()(Vec x) const { return max(zero(), x); }
};
struct Relu2Function {
  REPRISE_INLINE Vec operator()(Vec x) const {
    const Vec positive = max(zero(), x);
    return mul(positive, positive);
  }
};
struct ScaleFunction {
  float factor;
  REPRISE_INLINE Vec operator()(Vec x) const { return mul(x, broadcast(factor)); }
};
struct SoftCapFunction {
  float cap;
  REPRISE_INLINE Vec operator()(Vec x) const { return soft_capped(x, cap); }
};
struct ClampFunction {
  float least;
  float most;
  // The constants are the first operands, so that a NaN stays a NaN.
  REPRISE_INLINE Vec operator()(Vec x) const {
    return max(broadcast(least), min(broadcast(most), x));
  }
};

template <typename T, typename Function>
inline void elementwise(const ElementwiseArguments& a,
                        device::BlockRange blocks,
                        const Function& function) {
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
      T* out = static_cast<T*>(a.out) + row * a.tiles.width;
      for (int64_t i = tile.column_begin; i < tile.column_end; i += kLanes) {
        const int count = lanes_at(i, tile.column_end);
        store_some(out + i, function(load_some(x + i, count)), count);
      }
    }
  }
}

template <typename T>
void run_activation(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ElementwiseArguments*>(args);
  if (a.function == OpFunction::gelu) return elementwise<T>(a, blocks, GeluFunction{});
  if (a.function == OpFunction::gelu_tanh) return elementwise<T>(a, blocks, GeluTanhFunction{});
  if (a.function == OpFunction::relu) return elementwise<T>(a, blocks, ReluFunction{});
  elementwise<T>(a, blocks, Relu2Function{});
}
template <typename T>
void run_scale(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ElementwiseArguments*>(args);
  elementwise<T>(a, blocks, ScaleFunction{a.parameter});
}
template <typename T>
void run_soft_cap(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ElementwiseArguments*>(args);
  elementwise<T>(a, blocks, SoftCapFunction{a.parameter});
}
template <typename T>
void run_clamp(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ElementwiseArguments*>(args);
  elementwise<T>(a, blocks, ClampFunction{.least = a.least, .most = a.parameter});
}
