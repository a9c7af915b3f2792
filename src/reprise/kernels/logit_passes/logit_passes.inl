// Passes over one row of logits, for the sampler of the host. The order of each sum depends only on
// the length of the row.

constexpr int64_t kMassParts = 32;  // number of parts whose weights are added in float32

inline void run_logit_maxima(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const LogitMaximaArguments*>(args);
  if (blocks.begin > 0 || blocks.end == 0) return;
  // NaN and infinity times 0 are NaN. -inf is allowed, so it is first replaced by a finite number.
  const Vec smallest = broadcast(-3.4028234663852886e38F);
  Vec broken = zero();
  for (int64_t begin = 0; begin < a.size; begin += kLogitPart) {
    const int64_t end = min_of(begin + kLogitPart, a.size);
    Vec largest = broadcast(-__builtin_inff());
    for (int64_t i = begin; i < end; i += kLanes) {
      const int count = lanes_at(i, end);
      Vec x = load_some(a.logits + i, count);
      if (count < kLanes) x = keep_lanes(x, 0, count, -__builtin_inff());
      largest = max(largest, x);
      broken = fma(max(smallest, x), zero(), broken);
    }
    a.maxima[begin / kLogitPart] = maximum(largest);
  }
  *a.is_allowed = sum(broken) == 0.0F ? 1 : 0;
}

REPRISE_INLINE Vec weight_of_logit(Vec x, Vec max, Vec inverse_temperature) {
  return exp(mul(sub(x, max), inverse_temperature));
}

inline void run_logit_weights(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const LogitWeightsArguments*>(args);
  if (blocks.begin > 0 || blocks.end == 0) return;
  const Vec max = broadcast(a.max);
  const Vec scale = broadcast(a.inverse_temperature);
  const Vec least = broadcast(a.least);
  for (int64_t begin = 0; begin < a.size; begin += kLogitPart) {
    const int64_t end = min_of(begin + kLogitPart, a.size);
    float* total = a.sums + begin / kLogitPart;
    *total = 0;
    if (a.maxima[begin / kLogitPart] < a.least) continue;
    Vec weights = zero();
    for (int64_t i = begin; i < end; i += kLanes) {
      const int count = lanes_at(i, end);
      const Vec x = load_some(a.logits + i, count);
      Vec weight = keep_at_least(weight_of_logit(x, max, scale), x, least);
      if (count < kLanes) weight = keep_lanes(weight, 0, count, 0.0F);
      weights = add(weights, weight);
    }
    *total = sum(weights);
  }
}

// The sums of one stretch of parts.
inline void add_logit_masses(const LogitMassArguments& a, int64_t begin, int64_t end) {
  const Vec max = broadcast(a.max);
  const Vec scale = broadcast(a.inverse_temperature);
  float lowest = a.levels[0];
  for (int l = 1; l < kLogitLevels; ++l) lowest = a.levels[l] < lowest ? a.levels[l] : lowest;
  Vec masses[kLogitLevels];
#pragma GCC unroll 8
  for (int l = 0; l < kLogitLevels; ++l) masses[l] = zero();
  for (int64_t part = begin; part < end; part += kLogitPart) {
    if (a.maxima[part / kLogitPart] < lowest) continue;
    const int64_t part_end = min_of(part + kLogitPart, end);
    for (int64_t i = part; i < part_end; i += kLanes) {
      const int count = lanes_at(i, part_end);
      const Vec x = load_some(a.logits + i, count);
      Vec weight = weight_of_logit(x, max, scale);
      if (count < kLanes) weight = keep_lanes(weight, 0, count, 0.0F);
#pragma GCC unroll 8
      for (int l = 0; l < kLogitLevels; ++l) {
        masses[l] = add(masses[l], keep_at_least(weight, x, broadcast(a.levels[l])));
      }
    }
  }
#pragma GCC unroll 8
  for (int l = 0; l < kLogitLevels; ++l) a.masses[l] += static_cast<double>(sum(masses[l]));
}

inline void run_logit_mass(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const LogitMassArguments*>(args);
  if (blocks.begin > 0 || blocks.end == 0) return;
  for (int l = 0; l < kLogitLevels; ++l) a.masses[l] = 0;
  constexpr int64_t kStretch = kMassParts * kLogitPart;
  for (int64_t begin = 0; begin < a.size; begin += kStretch) {
    add_logit_masses(a, begin, min_of(begin + kStretch, a.size));
  }
}
