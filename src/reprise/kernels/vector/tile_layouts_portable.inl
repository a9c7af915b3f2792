// The operations of tile_layouts_avx512.inl in portable code, with the same bits.

struct TileLayouts {
  static void transpose_words(const void* const* rows, void* lines) {
    for (int r = 0; r < 16; ++r) {
      for (int i = 0; i < 16; ++i) {
        __builtin_memcpy(static_cast<uint8_t*>(lines) + 4 * (16 * i + r),
                         static_cast<const uint8_t*>(rows[r]) + 4 * i,
                         4);
      }
    }
  }

  static void transpose_columns(const BFloat16* const* rows, BFloat16* lines) {
    for (int r = 0; r < 32; ++r) {
      for (int i = 0; i < 16; ++i) lines[32 * i + r] = rows[r][i];
    }
  }
};

struct PowerOfTwo {
  Vec fraction;
  Vec whole;

  REPRISE_INLINE explicit PowerOfTwo(Vec x) {
    x = max(broadcast(-200.0F), x);  // keeps a NaN; the limit is 0 as a float32
    whole = round_nearest(x);
    fraction = sub(x, whole);
  }
  [[nodiscard]] REPRISE_INLINE Vec scale(Vec power) const {
    return scale_by_power_of_two(power, whole);
  }
};

REPRISE_INLINE Vec store_weight_pairs(BFloat16* to, Vec first, Vec second) {
  const auto rounded = [](Vec x) REPRISE_LAMBDA_INLINE {
    return (reinterpret_cast<BitsVec>(x) + 0x8000U) & 0xffff0000U;
  };
  const BitsVec low = rounded(first);
  const BitsVec high = rounded(second);
  const BitsVec pairs = low >> 16 | high;
  __builtin_memcpy(to, &pairs, sizeof pairs);
  return reinterpret_cast<Vec>(low) + reinterpret_cast<Vec>(high);
}
