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
  /// The bits of `mask` of `plane` shifted to the left; a negative shift is one to the right.
  template <int kShift>
  static REPRISE_INLINE Codes bits(Codes plane, int mask) {
    const __m512i shifted =
        kShift >= 0 ? _mm512_slli_epi16(plane, kShift > 0 ? static_cast<unsigned>(kShift) : 0U)
                    : _mm512_srli_epi16(plane, kShift < 0 ? static_cast<unsigned>(-kShift) : 0U);
    return _mm512_and_si512(shifted, _mm512_set1_epi8(static_cast<char>(mask)));
  }
  static REPRISE_INLINE Codes either(Codes a, Codes b) { return _mm512_or_si512(a, b); }
  /// The 16 bytes of `table`, by code.
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
  /// Codes are values + 128; the sums are larger by kWideOffset times the sum of x.
  static REPRISE_INLINE Sums add_wide(Sums sums, Codes codes, Four x) {
    return _mm512_dpbusd_epi32(sums, codes, x);
  }
  /// Codes are less than 128.
  static REPRISE_INLINE Sums add_narrow(Sums sums, Codes codes, Four x) {
    return _mm512_dpbusd_epi32(sums, codes, x);
  }
#else
  static constexpr int32_t kWideOffset = 0;
  // Pairs of products are summed in 16 bits, which 2 * 128 * 127 does not leave.
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

  static REPRISE_INLINE Floats load_floats(const float* p) { return _mm512_loadu_ps(p); }
  static REPRISE_INLINE Floats load_f32(const uint8_t* p) { return _mm512_loadu_ps(p); }
  static REPRISE_INLINE Floats load_f16(const uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static REPRISE_INLINE Floats load_u8(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
  }
  /// 2^(e - 128) for 16 bytes e; those below 2 give subnormal numbers.
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
  /// The low halves of 16 bytes, or the high ones.
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
};
// Register tile of matrix products: 12 sums and as many totals of 32 registers. Two panels share
// the broadcasts of x.
constexpr int kPanelTileRows = 6;
constexpr int kPanelTileColumns = 2;  // in panels
