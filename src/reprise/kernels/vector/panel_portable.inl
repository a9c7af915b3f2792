// Vectors of 16 outputs, one per column of a panel (tensor/block_panels.h): codes of four elements
// each, sums of products, floats.
struct Panel {
  struct Codes {
    uint8_t of[64];
  };
  struct Four {
    int32_t of[4];  // four codes of an activation
  };
  struct Sums {
    int32_t of[16];
  };
  struct Floats {
    float of[16] = {};
  };

  static REPRISE_INLINE Codes load(const uint8_t* p) {
    Codes codes;
    __builtin_memcpy(codes.of, p, sizeof(codes.of));
    return codes;
  }
  static REPRISE_INLINE void store_codes(uint8_t* p, const Codes& codes) {
    __builtin_memcpy(p, codes.of, sizeof(codes.of));
  }
  static REPRISE_INLINE Codes low_halves(const Codes& pairs) {
    Codes codes;
    for (int i = 0; i < 64; ++i) codes.of[i] = pairs.of[i] & 15U;
    return codes;
  }
  static REPRISE_INLINE Codes high_halves(const Codes& pairs) {
    Codes codes;
    for (int i = 0; i < 64; ++i) codes.of[i] = static_cast<uint8_t>(pairs.of[i] >> 4);
    return codes;
  }
  /// The bits of `mask` of `plane`, shifted to the left by kShift; a negative kShift shifts to the
  /// right.
  template <int kShift>
  static REPRISE_INLINE Codes bits(const Codes& plane, int mask) {
    Codes codes;
    for (int i = 0; i < 64; ++i) {
      const int shifted = kShift >= 0 ? plane.of[i] << (kShift > 0 ? kShift : 0)
                                      : plane.of[i] >> (kShift < 0 ? -kShift : 0);
      codes.of[i] = static_cast<uint8_t>(shifted & mask);
    }
    return codes;
  }
  static REPRISE_INLINE Codes either(const Codes& a, const Codes& b) {
    Codes codes;
    for (int i = 0; i < 64; ++i) codes.of[i] = a.of[i] | b.of[i];
    return codes;
  }
  /// Looks up the 16 bytes of `table` by code.
  static REPRISE_INLINE Codes look_up(const uint8_t* table, const Codes& codes) {
    Codes values;
    for (int i = 0; i < 64; ++i) values.of[i] = table[codes.of[i] & 15U];
    return values;
  }

  /// Codes less `offset`, as signed bytes.
  static REPRISE_INLINE Codes minus(const Codes& codes, int offset) {
    Codes values;
    for (int i = 0; i < 64; ++i) values.of[i] = static_cast<uint8_t>(codes.of[i] - offset);
    return values;
  }
  static REPRISE_INLINE Sums load_sums(const int32_t* p) {
    Sums sums;
    __builtin_memcpy(sums.of, p, sizeof(sums.of));
    return sums;
  }

  static REPRISE_INLINE Sums start(int32_t value) {
    Sums sums;
    for (int i = 0; i < 16; ++i) sums.of[i] = value;
    return sums;
  }
  static REPRISE_INLINE Four broadcast_four(const int8_t* x) { return {{x[0], x[1], x[2], x[3]}}; }
  static constexpr int32_t kWideOffset = 128;
  /// Codes are values + 128, so the sums are too large by kWideOffset times the sum of x.
  static REPRISE_INLINE Sums add_wide(Sums sums, const Codes& codes, const Four& x) {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 4; ++j) sums.of[i] += codes.of[4 * i + j] * x.of[j];
    }
    return sums;
  }
  /// Codes are less than 128.
  static REPRISE_INLINE Sums add_narrow(const Sums& sums, const Codes& codes, const Four& x) {
    return add_wide(sums, codes, x);
  }

  // Products of signed bytes. The sums of a panel with one row of x begin with start_bytes().
  struct Bytes {  // codes of a weight
    int8_t of[64];
  };
  using FourBytes = Four;  // four elements of x, for every column
  static REPRISE_INLINE Sums start_bytes(const int8_t*) { return start(0); }
  static REPRISE_INLINE Bytes load_bytes(const int8_t* p) {
    Bytes bytes;
    __builtin_memcpy(bytes.of, p, sizeof(bytes.of));
    return bytes;
  }
  static REPRISE_INLINE FourBytes broadcast_bytes(const int8_t* x) { return broadcast_four(x); }
  static REPRISE_INLINE Sums add_bytes(Sums sums, const Bytes& codes, const FourBytes& x) {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 4; ++j) sums.of[i] += codes.of[4 * i + j] * x.of[j];
    }
    return sums;
  }
  static REPRISE_INLINE void store_sums(int32_t* p, const Sums& sums) {
    __builtin_memcpy(p, sums.of, sizeof(sums.of));
  }
  /// (sums * scale) * scales, rounded after each step.
  static REPRISE_INLINE Floats scaled(const Sums& sums, float scale, const Floats& scales) {
    Floats v;
    for (int i = 0; i < 16; ++i) v.of[i] = static_cast<float>(sums.of[i]) * scale * scales.of[i];
    return v;
  }

  static REPRISE_INLINE Floats load_floats(const float* p) {
    Floats v;
    __builtin_memcpy(v.of, p, sizeof(v.of));
    return v;
  }
  static REPRISE_INLINE Floats load_f32(const uint8_t* p) {
    Floats v;
    __builtin_memcpy(v.of, p, sizeof(v.of));
    return v;
  }
  static REPRISE_INLINE Floats load_f16(const uint8_t* p) {
    Floats v;
    for (int i = 0; i < 16; ++i) {
      Float16 half;
      __builtin_memcpy(&half, p + 2 * i, sizeof(half));
      v.of[i] = to_float(half);
    }
    return v;
  }
  static REPRISE_INLINE Floats load_u8(const uint8_t* p) {
    Floats v;
    for (int i = 0; i < 16; ++i) v.of[i] = static_cast<float>(p[i]);
    return v;
  }
  /// 2^(e - 128) for 16 bytes e; values of e below 2 give subnormal numbers.
  static REPRISE_INLINE Floats load_powers(const uint8_t* p) {
    Floats v;
    for (int i = 0; i < 16; ++i) {
      const uint32_t e = p[i];
      v.of[i] = bits_to_float(e < 2 ? 0x00200000U << e : (e - 1) << 23);
    }
    return v;
  }
  static REPRISE_INLINE Floats load_i8(const uint8_t* p) {
    Floats v;
    for (int i = 0; i < 16; ++i) v.of[i] = static_cast<float>(static_cast<int8_t>(p[i]));
    return v;
  }
  /// Either the low or the high halves of 16 bytes.
  static REPRISE_INLINE Floats load_low_half(const uint8_t* p) {
    Floats v;
    for (int i = 0; i < 16; ++i) v.of[i] = static_cast<float>(p[i] & 15U);
    return v;
  }
  static REPRISE_INLINE Floats load_high_half(const uint8_t* p) {
    Floats v;
    for (int i = 0; i < 16; ++i) v.of[i] = static_cast<float>(p[i] >> 4);
    return v;
  }
  static REPRISE_INLINE Floats times(const Floats& a, const Floats& b) {
    Floats v;
    for (int i = 0; i < 16; ++i) v.of[i] = a.of[i] * b.of[i];
    return v;
  }
  static REPRISE_INLINE Floats negative(const Floats& a) {
    Floats v;
    for (int i = 0; i < 16; ++i) v.of[i] = 0.0F - a.of[i];
    return v;
  }
  /// total + sums * (scales * scale)
  static REPRISE_INLINE Floats accumulate(const Sums& sums,
                                          const Floats& scales,
                                          float scale,
                                          Floats total) {
    for (int i = 0; i < 16; ++i) {
      total.of[i] += static_cast<float>(sums.of[i]) * (scales.of[i] * scale);
    }
    return total;
  }
  /// total + values * x
  static REPRISE_INLINE Floats accumulate(const Floats& values, float x, Floats total) {
    for (int i = 0; i < 16; ++i) total.of[i] += values.of[i] * x;
    return total;
  }
  static REPRISE_INLINE void store(float* p, const Floats& v) {
    __builtin_memcpy(p, v.of, sizeof(v.of));
  }

  static REPRISE_INLINE Floats all(float value) {
    Floats v;
    for (int i = 0; i < 16; ++i) v.of[i] = value;
    return v;
  }
  static REPRISE_INLINE BFloat16 rounded(float value) {
    return {static_cast<uint16_t>((float_to_bits(value) + 0x8000U) >> 16)};
  }
  /// Stores the 32 codes of an activation times their scale, rounded to bfloat16.
  static REPRISE_INLINE void store_activations(BFloat16* p, const int8_t* codes, float scale) {
    for (int i = 0; i < 32; ++i) p[i] = rounded(static_cast<float>(codes[i]) * scale);
  }
  /// Stores scale * code + least, rounded to bfloat16: [2 pairs of elements][16 columns][2].
  static REPRISE_INLINE void store_elements(BFloat16* p,
                                            const Codes& codes,
                                            const Floats& scales,
                                            const Floats& least) {
    for (int i = 0; i < 64; ++i) {
      const int column = i / 4;
      const float value = static_cast<float>(codes.of[i]) * scales.of[column] + least.of[column];
      p[i % 4 / 2 * 32 + column * 2 + i % 2] = rounded(value);
    }
  }
};
constexpr int kPanelTileRows = 2;
constexpr int kPanelTileColumns = 1;  // in panels
constexpr bool kPanelTilesReadNibbles = false;
constexpr bool kPanelSumsInWords = false;
constexpr bool kPanelWidensRows = false;
