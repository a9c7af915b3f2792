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

  static void store_pairs(Vec even, Vec odd, BFloat16* high, BFloat16* low) {
    for (int i = 0; i < kLanes; ++i) {
      split(even[i], high + 2 * i, low + 2 * i);
      split(odd[i], high + 2 * i + 1, low + 2 * i + 1);
    }
  }

 private:
  static void split(float x, BFloat16* high, BFloat16* low) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    store_upper_half(bits, high);
    bits &= 0xffff0000U;
    float upper;
    __builtin_memcpy(&upper, &bits, sizeof upper);
    const float rest = x - upper;
    __builtin_memcpy(&bits, &rest, sizeof bits);
    store_upper_half(bits + 0x8000U, low);
  }
  static void store_upper_half(uint32_t bits, BFloat16* out) {
    const auto half = static_cast<uint16_t>(bits >> 16);
    __builtin_memcpy(out, &half, sizeof half);
  }
};
