// Vectors of 16 outputs, one per column of a panel (tensor/block_panels.h): codes of four elements
// each, sums of products, floats.
struct Panel {
  using Codes = __m512i;
  using Four = __m512i;  // four codes of an activation, for every column
  using Sums = __m512i;
  using Floats = Vec;

  static REPRISE_INLINE Codes load(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static REPRISE_INLINE void store_codes(uint8_t* p, Codes codes) { _mm512_storeu_si512(p, codes); }
  static REPRISE_INLINE Codes low_halves(Codes pairs) {
    return _mm512_and_si512(pairs, _mm512_set1_epi8(15));
  }
  static REPRISE_INLINE Codes high_halves(Codes pairs) {
    return low_halves(_mm512_srli_epi16(pairs, 4));
  }
  /// The bits of `mask` of `plane`, shifted to the left by kShift; a negative kShift shifts to the
  /// right.
  template <int kShift>
  static REPRISE_INLINE Codes bits(Codes plane, int mask) {
    const __m512i shifted =
        kShift >= 0 ? _mm512_slli_epi16(plane, kShift > 0 ? static_cast<unsigned>(kShift) : 0U)
                    : _mm512_srli_epi16(plane, kShift < 0 ? static_cast<unsigned>(-kShift) : 0U);
    return _mm512_and_si512(shifted, _mm512_set1_epi8(static_cast<char>(mask)));
  }
  static REPRISE_INLINE Codes either(Codes a, Codes b) { return _mm512_or_si512(a, b); }
  /// Looks up the 16 bytes of `table` by code.
  static REPRISE_INLINE Codes look_up(const uint8_t* table, Codes codes) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), codes);
  }

  /// Codes less `offset`, as signed bytes.
  static REPRISE_INLINE Codes minus(Codes codes, int offset) {
    return _mm512_sub_epi8(codes, _mm512_set1_epi8(static_cast<char>(offset)));
  }
  static REPRISE_INLINE Sums load_sums(const int32_t* p) { return _mm512_loadu_si512(p); }

  static REPRISE_INLINE Sums start(int32_t value) { return _mm512_set1_epi32(value); }
  static REPRISE_INLINE Four broadcast_four(const int8_t* x) {
    int32_t four;
    __builtin_memcpy(&four, x, sizeof(four));
    return _mm512_set1_epi32(four);
  }
#ifdef REPRISE_ISA_HAS_VNNI
  static constexpr int32_t kWideOffset = 128;
  /// Codes are values + 128, so the sums are too large by kWideOffset times the sum of x.
  static REPRISE_INLINE Sums add_wide(Sums sums, Codes codes, Four x) {
    return _mm512_dpbusd_epi32(sums, codes, x);
  }
  /// Codes are less than 128.
  static REPRISE_INLINE Sums add_narrow(Sums sums, Codes codes, Four x) {
    return _mm512_dpbusd_epi32(sums, codes, x);
  }
#else
  static constexpr int32_t kWideOffset = 0;
  // Pairs of products are added in 16 bits, which are sufficient for 2 * 128 * 127.
  static REPRISE_INLINE Sums add_narrow(Sums sums, Codes codes, Four x) {
    const __m512i pairs = _mm512_maddubs_epi16(codes, x);
    return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  static REPRISE_INLINE Sums add_wide(Sums sums, Codes codes, Four x) {
    const __m512i weight = _mm512_xor_si512(codes, _mm512_set1_epi8(-128));
    const __m512i with_sign =
        _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(weight), _mm512_setzero_si512(), x);
    return add_narrow(sums, _mm512_abs_epi8(weight), with_sign);
  }
#endif

  // Products of signed bytes. The sums of a panel with one row of x begin with start_bytes().
#ifdef REPRISE_ISA_HAS_VNNI
  // The instruction takes one unsigned operand: x + 128. So the sums begin with -128 times the sum
  // of the codes.
  using Bytes = __m512i;      // codes of a weight
  using FourBytes = __m512i;  // four elements of x, for every column
  static REPRISE_INLINE Sums start_bytes(const int8_t* code_sums) {
    const __m512i sums = _mm512_loadu_si512(code_sums);
    return _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sums, 7));
  }
  static REPRISE_INLINE Bytes load_bytes(const int8_t* p) { return _mm512_loadu_si512(p); }
  static REPRISE_INLINE FourBytes broadcast_bytes(const int8_t* x) {
    return _mm512_xor_si512(broadcast_four(x), _mm512_set1_epi8(-128));
  }
  static REPRISE_INLINE Sums add_bytes(Sums sums, Bytes codes, FourBytes x) {
    return _mm512_dpbusd_epi32(sums, x, codes);
  }
#else
  struct Bytes {
    __m512i even;  // as words
    __m512i odd;
  };
  using FourBytes = Bytes;
  static REPRISE_INLINE Bytes split_bytes(__m512i v) {
    return {_mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8), _mm512_srai_epi16(v, 8)};
  }
  static REPRISE_INLINE Sums start_bytes(const int8_t*) { return start(0); }
  static REPRISE_INLINE Bytes load_bytes(const int8_t* p) {
    return split_bytes(_mm512_loadu_si512(p));
  }
  static REPRISE_INLINE FourBytes broadcast_bytes(const int8_t* x) {
    return split_bytes(broadcast_four(x));
  }
  static REPRISE_INLINE Sums add_bytes(Sums sums, const Bytes& codes, const FourBytes& x) {
    const __m512i products = _mm512_add_epi32(_mm512_madd_epi16(codes.even, x.even),
                                              _mm512_madd_epi16(codes.odd, x.odd));
    return _mm512_add_epi32(sums, products);
  }
#endif
  static REPRISE_INLINE void store_sums(int32_t* p, Sums sums) { _mm512_storeu_si512(p, sums); }
  /// (sums * scale) * scales, rounded after each step.
  static REPRISE_INLINE Floats scaled(Sums sums, float scale, Floats scales) {
    return mul(mul(_mm512_cvtepi32_ps(sums), broadcast(scale)), scales);
  }

  static REPRISE_INLINE Floats load_floats(const float* p) { return _mm512_loadu_ps(p); }
  static REPRISE_INLINE Floats load_f32(const uint8_t* p) { return _mm512_loadu_ps(p); }
  static REPRISE_INLINE Floats load_f16(const uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static REPRISE_INLINE Floats load_u8(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
  }
  /// 2^(e - 128) for 16 bytes e; values of e below 2 give subnormal numbers.
  static REPRISE_INLINE Floats load_powers(const uint8_t* p) {
    const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __m512i subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
    const __mmask16 is_small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, is_small, subnormal));
  }
  static REPRISE_INLINE Floats load_i8(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  /// Either the low or the high halves of 16 bytes.
  static REPRISE_INLINE Floats load_low_half(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m512i words = _mm512_cvtepu8_epi32(bytes);
    return _mm512_cvtepi32_ps(_mm512_and_si512(words, _mm512_set1_epi32(15)));
  }
  static REPRISE_INLINE Floats load_high_half(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_srli_epi32(_mm512_cvtepu8_epi32(bytes), 4));
  }
  static REPRISE_INLINE Floats times(Floats a, Floats b) { return mul(a, b); }
  static REPRISE_INLINE Floats negative(Floats a) { return sub(zero(), a); }
  /// total + sums * (scales * scale)
  static REPRISE_INLINE Floats accumulate(Sums sums, Floats scales, float scale, Floats total) {
    return fma(_mm512_cvtepi32_ps(sums), mul(scales, broadcast(scale)), total);
  }
  /// total + values * x
  static REPRISE_INLINE Floats accumulate(Floats values, float x, Floats total) {
    return fma(values, broadcast(x), total);
  }
  static REPRISE_INLINE void store(float* p, Floats v) { _mm512_storeu_ps(p, v); }

  static REPRISE_INLINE Floats all(float value) { return broadcast(value); }
  /// Stores the 32 codes of an activation times their scale, rounded to bfloat16.
  static REPRISE_INLINE void store_activations(BFloat16* p, const int8_t* codes, float scale) {
    // A code is in the upper half of 32 bits, so as an integer it is 2^16 times as large.
    const Floats factor = broadcast(scale * 0x1p-16F);
    const __m512i words =
        _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
    const auto element = [&](__m512i upper) REPRISE_LAMBDA_INLINE {
      const Floats value = mul(_mm512_cvtepi32_ps(upper), factor);
      return _mm512_add_epi32(_mm512_castps_si512(value), _mm512_set1_epi32(0x8000));
    };
    const __m512i even = element(_mm512_slli_epi32(words, 16));
    const __m512i odd =
        element(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
    _mm512_storeu_si512(p, _mm512_mask_blend_epi16(0xaaaaaaaaU, _mm512_srli_epi32(even, 16), odd));
  }
  /// Stores scale * code + least, rounded to bfloat16: [2 pairs of elements][16 columns][2].
  static REPRISE_INLINE void store_elements(BFloat16* p, Codes codes, Floats scales, Floats least) {
    // A code in the highest bits of the mantissa of 256.0 makes 256 + code, which needs no
    // conversion from an integer.
    const Floats start = fma(scales, broadcast(-256.0F), least);
    const auto element = [&](__m512i shifted) REPRISE_LAMBDA_INLINE {
      const __m512i bits = _mm512_ternarylogic_epi32(
          shifted, _mm512_set1_epi32(0x007f8000), _mm512_set1_epi32(0x43800000), 0xea);
      const Floats value = fma(_mm512_castsi512_ps(bits), scales, start);
      return _mm512_add_epi32(_mm512_castps_si512(value), _mm512_set1_epi32(0x8000));
    };
    const auto pair = [](__m512i even, __m512i odd) REPRISE_LAMBDA_INLINE {
      return _mm512_mask_blend_epi16(0xaaaaaaaaU, _mm512_srli_epi32(even, 16), odd);
    };
    _mm512_storeu_si512(
        p, pair(element(_mm512_slli_epi32(codes, 15)), element(_mm512_slli_epi32(codes, 7))));
    _mm512_storeu_si512(
        p + 32, pair(element(_mm512_srli_epi32(codes, 1)), element(_mm512_srli_epi32(codes, 9))));
  }
};
// Register tile of matrix products: 12 of 32 registers hold sums, and 12 hold totals. Two panels
// share the broadcasts of x.
constexpr int kPanelTileRows = 6;
constexpr int kPanelTileColumns = 2;  // in panels
constexpr bool kPanelTilesReadNibbles = true;
constexpr bool kPanelSumsInWords = false;
constexpr bool kPanelWidensRows = false;
