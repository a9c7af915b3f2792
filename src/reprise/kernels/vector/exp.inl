// The only exp of this project. Attention and silu use it for every instruction set.
// Source: Cephes expf (Moshier): range reduction by ln 2 in two parts, and a minimax polynomial. It
// differs in the scaling, which keeps subnormal results. The error is below 2 ulp. exp(NaN) is NaN.
REPRISE_INLINE Vec exp(Vec x) {
  // Beyond these limits the result is 0 or infinity. The constant is the first operand, so that a
  // NaN stays a NaN.
  x = max(broadcast(-104.0F), x);
  x = min(broadcast(89.0F), x);
  const Vec n = round_nearest(mul(x, broadcast(1.44269504088896341F)));
  Vec r = fma(n, broadcast(-0.693359375F), x);  // exact: the constant has 10 significant bits
  r = fma(n, broadcast(2.12194440e-4F), r);
  Vec p = broadcast(1.9875691500e-4F);
  p = fma(p, r, broadcast(1.3981999507e-3F));
  p = fma(p, r, broadcast(8.3334519073e-3F));
  p = fma(p, r, broadcast(4.1665795894e-2F));
  p = fma(p, r, broadcast(1.6666665459e-1F));
  p = fma(p, r, broadcast(5.0000001201e-1F));
  p = fma(mul(r, r), p, r);
  return scale_by_power_of_two(add(p, broadcast(1.0F)), n);
}

inline void run_exp(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ExpArguments*>(args);
  if (blocks.begin > 0 || blocks.end == 0) return;
  for (int64_t i = 0; i < a.size; i += kLanes) {
    const int rest = static_cast<int>(min_of(kLanes, a.size - i));
    if (rest == kLanes) {
      store(a.out + i, exp(load(a.x + i)));
    } else {
      store_first(a.out + i, exp(load_first(a.x + i, rest)), rest);
    }
  }
}
