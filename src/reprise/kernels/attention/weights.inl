// Weights of the softmax that are rounded to bfloat16, for attention in pairs and in tiles.
//
// Scores are scaled to powers of two. A running maximum is rounded up to a multiple of eight, so
// corrections are powers of two, which bfloat16 represents exactly. A weight is therefore rounded
// in the same way, whatever positions precede it and however a context is divided. Few chunks need
// a correction, because a maximum seldom reaches the next multiple. The largest weight is 2^-8 at
// least. The total of a row is the sum of its rounded weights, so the weights still add up to one
// after the division.
//
// While positions are added, the maxima of an AttentionState are powers of two. Before and after,
// they are powers of e.

constexpr float kLog2E = 1.44269504088896341F;
constexpr float kLn2 = 0.693147180559945309F;
constexpr float kMaximumStep = 8;

/// Turns the maxima of some rows into powers of two, whose values are integral.
inline void use_powers_of_two(float* maxima, int count) {
  for (int r = 0; r < count; r += kLanes) {
    const int some = lanes_at(r, count);
    const Vec powers = round_nearest(mul(load_some(maxima + r, some), broadcast(kLog2E)));
    store_some(maxima + r, powers, some);
  }
}
inline void use_powers_of_e(float* maxima, int count) {
  for (int r = 0; r < count; r += kLanes) {
    const int some = lanes_at(r, count);
    store_some(maxima + r, mul(load_some(maxima + r, some), broadcast(kLn2)), some);
  }
}

/// How products of queries and keys become powers of two.
struct ScoreRule {
  const AttentionKernelArguments& a;
  /// Whether a product only has to be multiplied by `factor`. Otherwise prepare() comes first.
  bool is_linear;
  float factor;

  explicit ScoreRule(const AttentionKernelArguments& call)
      : a(call),
        is_linear(call.soft_cap == 0 && call.scale > 0),
        factor(is_linear ? call.scale * kLog2E : kLog2E) {}

  REPRISE_INLINE Vec prepare(Vec product) const {
    const Vec score = mul(product, broadcast(a.scale));
    return a.soft_cap > 0 ? soft_capped(score, a.soft_cap) : score;
  }
};

/// 2^(score * factor - power) with an error of 2^-13.7, for a weight that is rounded to eight bits.
/// 2^-inf becomes 0, and a NaN stays a NaN. The polynomial is a minimax of 2^r for |r| <= 1/2, by
/// Remez's exchange.
REPRISE_INLINE Vec weight_of(Vec score, Vec factor, Vec negative_power) {
  const PowerOfTwo power(fma(score, factor, negative_power));
  Vec p = broadcast(0.0551716685F);
  p = fma(p, power.fraction, broadcast(0.242611125F));
  p = fma(p, power.fraction, broadcast(0.693260968F));
  p = fma(p, power.fraction, broadcast(0.999928057F));
  return power.scale(p);
}

/// The maxima of rows after a chunk whose largest score is `largest`, and the factors of the
/// earlier sums.
struct NewMaxima {
  Vec powers;
  Vec negative_powers;  // finite
  Vec corrections;

  REPRISE_INLINE NewMaxima(Vec before, Vec largest, const ScoreRule& rule) {
    const Vec steps = round_up(mul(largest, broadcast(rule.factor / kMaximumStep)));
    powers = max(before, mul(steps, broadcast(kMaximumStep)));
    // For a row that has not seen any position, the maximum is -inf, and the weights are 0.
    const Vec finite = max(broadcast(-1e30F), powers);
    negative_powers = sub(zero(), finite);
    corrections =
        scale_by_power_of_two(broadcast(1.0F), max(broadcast(-252.0F), sub(before, finite)));
  }
};
