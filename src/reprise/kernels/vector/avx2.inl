// Eight float lanes: AVX2 + FMA + F16C.

using Vec = __m256;
constexpr int kLanes = 8;

REPRISE_INLINE Vec broadcast(float value) { return _mm256_set1_ps(value); }
REPRISE_INLINE Vec zero() { return _mm256_setzero_ps(); }
REPRISE_INLINE Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
REPRISE_INLINE Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
REPRISE_INLINE Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
REPRISE_INLINE Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
REPRISE_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
// the result is NaN if b is NaN
REPRISE_INLINE Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
REPRISE_INLINE Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
REPRISE_INLINE Vec round_nearest(Vec x) {
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/// x * 2^n for integral n in [-252, 254].
REPRISE_INLINE Vec scale_by_power_of_two(Vec x, Vec n) {
  const __m256i exponent = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(exponent, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(exponent, half), bias), 23);
  return mul(mul(x, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}

REPRISE_INLINE __m256i lane_index() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
REPRISE_INLINE __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane_index());
}
/// Loads the first n of eight 16-bit elements; the others are zeros.
REPRISE_INLINE __m128i load_first_16bit(const void* p, int n) {
  alignas(16) uint16_t elements[kLanes] = {};
  __builtin_memcpy(elements, p, static_cast<size_t>(n) * 2);
  return _mm_load_si128(reinterpret_cast<const __m128i*>(elements));
}
REPRISE_INLINE Vec widen_bf16(__m128i v) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}
REPRISE_INLINE __m128i narrow_bf16(Vec v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i lowest = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(bits, _mm256_add_epi32(lowest, _mm256_set1_epi32(0x7fff))), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i result = _mm256_blendv_epi8(rounded, quiet, is_nan);
  return _mm_packus_epi32(_mm256_castsi256_si128(result), _mm256_extracti128_si256(result, 1));
}
REPRISE_INLINE __m128i narrow_f16(Vec v) {
  return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

REPRISE_INLINE Vec load(const float* p) { return _mm256_loadu_ps(p); }
/// Loads all eight elements into both halves, where a byte shuffle moves four of them into the
/// upper halves of the lanes. Instructions that widen across the halves are slower on Zen 3.
REPRISE_INLINE Vec load(const BFloat16* p) {
  const __m256i twice =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  constexpr char k = -128;  // a zero
  const __m256i upper = _mm256_setr_epi8(k,
                                         k,
                                         0,
                                         1,
                                         k,
                                         k,
                                         2,
                                         3,
                                         k,
                                         k,
                                         4,
                                         5,
                                         k,
                                         k,
                                         6,
                                         7,
                                         k,
                                         k,
                                         8,
                                         9,
                                         k,
                                         k,
                                         10,
                                         11,
                                         k,
                                         k,
                                         12,
                                         13,
                                         k,
                                         k,
                                         14,
                                         15);
  return _mm256_castsi256_ps(_mm256_shuffle_epi8(twice, upper));
}
REPRISE_INLINE Vec load(const Float16* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
REPRISE_INLINE Vec load_first(const float* p, int n) {
  return _mm256_maskload_ps(p, first_lanes(n));
}
REPRISE_INLINE Vec load_first(const BFloat16* p, int n) {
  return widen_bf16(load_first_16bit(p, n));
}
REPRISE_INLINE Vec load_first(const Float16* p, int n) {
  return _mm256_cvtph_ps(load_first_16bit(p, n));
}

/// Loads the first n of 16 bytes; the others are zeros.
REPRISE_INLINE __m128i load_first_8bit(const void* p, int n) {
  alignas(16) uint8_t elements[16] = {};
  __builtin_memcpy(elements, p, static_cast<size_t>(n));
  return _mm_load_si128(reinterpret_cast<const __m128i*>(elements));
}
/// Widens eight float8 in the low half. Moved to the same fields of a float16, the bits of a float8
/// are a number that is too small by the factor 2^8; this holds for subnormals, too. Only the NaN
/// of float8 becomes a number, 480.
REPRISE_INLINE Vec widen_f8(__m128i v) {
  const __m128i shifted = _mm_slli_epi16(_mm_cvtepi8_epi16(v), 7);  // copies the sign into two bits
  const __m128i half = _mm_andnot_si128(_mm_set1_epi16(0x4000), shifted);
  const Vec x = mul(_mm256_cvtph_ps(half), broadcast(256.0F));
  const Vec magnitude = _mm256_andnot_ps(broadcast(-0.0F), x);
  return _mm256_or_ps(x, _mm256_cmp_ps(magnitude, broadcast(480.0F), _CMP_EQ_OQ));
}
REPRISE_INLINE Vec load(const Float8E4M3* p) {
  return widen_f8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
REPRISE_INLINE Vec load_first(const Float8E4M3* p, int n) {
  return widen_f8(load_first_8bit(p, n));
}

/// The bits of an E5M2 float8 are the upper half of a float16.
REPRISE_INLINE Vec load(const Float8E5M2* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(bytes), 8));
}
REPRISE_INLINE Vec load(const int8_t* p) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

REPRISE_INLINE void store_first_16bit(void* p, __m128i v, int n) {
  alignas(16) uint16_t elements[kLanes];
  _mm_store_si128(reinterpret_cast<__m128i*>(elements), v);
  __builtin_memcpy(p, elements, static_cast<size_t>(n) * 2);
}
REPRISE_INLINE void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
REPRISE_INLINE void store(BFloat16* p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow_bf16(v));
}
REPRISE_INLINE void store(Float16* p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow_f16(v));
}
/// The lanes hold whole numbers from -128 to 127.
REPRISE_INLINE void store(int8_t* p, Vec v) {
  const __m256i words = _mm256_cvtps_epi32(v);
  const __m128i halves =
      _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(halves, halves));
}
REPRISE_INLINE void store_first(float* p, Vec v, int n) {
  _mm256_maskstore_ps(p, first_lanes(n), v);
}
REPRISE_INLINE void store_first(BFloat16* p, Vec v, int n) {
  store_first_16bit(p, narrow_bf16(v), n);
}
REPRISE_INLINE void store_first(Float16* p, Vec v, int n) {
  store_first_16bit(p, narrow_f16(v), n);
}

/// Keeps v in lanes [begin, end), and takes `other` elsewhere.
REPRISE_INLINE Vec keep_lanes(Vec v, int begin, int end, float other) {
  const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(begin), lane_index());
  const __m256i kept = _mm256_andnot_si256(below, first_lanes(end));
  return _mm256_blendv_ps(broadcast(other), v, _mm256_castsi256_ps(kept));
}

/// Keeps v in the lanes where x is at least `least`, and 0 elsewhere.
REPRISE_INLINE Vec keep_at_least(Vec v, Vec x, Vec least) {
  return _mm256_and_ps(v, _mm256_cmp_ps(x, least, _CMP_GE_OQ));
}

REPRISE_INLINE __m128 fold(Vec v) {
  return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}
/// Computes four sums, each in the order of the same tree: halves, then lanes 0+2 and 1+3, then
/// both.
REPRISE_INLINE void sum4(Vec a, Vec b, Vec c, Vec d, float* out) {
  const __m128 fa = fold(a);
  const __m128 fb = fold(b);
  const __m128 fc = fold(c);
  const __m128 fd = fold(d);
  const __m128 ab = _mm_add_ps(_mm_unpacklo_ps(fa, fb), _mm_unpackhi_ps(fa, fb));
  const __m128 cd = _mm_add_ps(_mm_unpacklo_ps(fc, fd), _mm_unpackhi_ps(fc, fd));
  _mm_storeu_ps(out, _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab)));
}
REPRISE_INLINE float sum(Vec v) {
  const __m128 four = fold(v);
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
REPRISE_INLINE float maximum(Vec v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
/// Transposes the 8 words of each of 8 rows from `element` on: word i of row r becomes lane r of
/// lines[i].
template <typename T>
REPRISE_INLINE void load_transposed(const T* const* rows, int64_t element, Vec (&lines)[kLanes]) {
#pragma GCC unroll 2
  for (int half = 0; half < 8; half += 4) {
    const auto words = [&](int row) REPRISE_LAMBDA_INLINE {
      return _mm_loadu_ps(reinterpret_cast<const float*>(rows[row] + element) + half);
    };
    const auto both = [&](int row) REPRISE_LAMBDA_INLINE {
      return _mm256_insertf128_ps(_mm256_castps128_ps256(words(row)), words(row + 4), 1);
    };
    const Vec ab_low = _mm256_unpacklo_ps(both(0), both(1));
    const Vec ab_high = _mm256_unpackhi_ps(both(0), both(1));
    const Vec cd_low = _mm256_unpacklo_ps(both(2), both(3));
    const Vec cd_high = _mm256_unpackhi_ps(both(2), both(3));
    lines[half] = _mm256_shuffle_ps(ab_low, cd_low, 0x44);
    lines[half + 1] = _mm256_shuffle_ps(ab_low, cd_low, 0xee);
    lines[half + 2] = _mm256_shuffle_ps(ab_high, cd_high, 0x44);
    lines[half + 3] = _mm256_shuffle_ps(ab_high, cd_high, 0xee);
  }
}
/// Either the first or the second elements of pairs of bfloat16.
REPRISE_INLINE Vec first_of_pairs(Vec pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16));
}
REPRISE_INLINE Vec second_of_pairs(Vec pairs) {
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
  return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(pairs), high));
}
REPRISE_INLINE float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

/// Sums of products of type T: the elements of one load, and their product with those of another
/// load.
template <typename T>
struct Dot {
  using Packet = Vec;
  using Sum = Vec;
  using Result = float;
  static constexpr int kStep = kLanes;
  static REPRISE_INLINE Packet load_packet(const T* p) { return load(p); }
  static REPRISE_INLINE Packet load_packet_first(const T* p, int n) { return load_first(p, n); }
  static REPRISE_INLINE Vec accumulate(Packet a, Packet b, Vec sum) { return fma(a, b, sum); }
};
/// Loads two neighbouring elements as one 32-bit number.
REPRISE_INLINE int load_pair(const BFloat16* p) {
  int pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return pair;
}
// Even and odd elements are separated, so that a shift and a mask widen bfloat16.
template <>
struct Dot<BFloat16> {
  struct Packet {
    Vec even;
    Vec odd;
  };
  using Sum = Vec;
  using Result = float;
  static constexpr int kStep = 2 * kLanes;
  static REPRISE_INLINE Packet split(__m256i pairs) {
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(pairs, high))};
  }
  static REPRISE_INLINE Packet load_packet(const BFloat16* p) {
    return split(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static REPRISE_INLINE Packet broadcast_pair(const BFloat16* p) {
    return split(_mm256_set1_epi32(load_pair(p)));
  }
  static REPRISE_INLINE Packet load_packet_first(const BFloat16* p, int n) {
    alignas(32) uint16_t elements[kStep] = {};
    __builtin_memcpy(elements, p, static_cast<size_t>(n) * 2);
    return split(_mm256_load_si256(reinterpret_cast<const __m256i*>(elements)));
  }
  static REPRISE_INLINE Vec accumulate(const Packet& a, const Packet& b, Vec sum) {
    return fma(a.odd, b.odd, fma(a.even, b.even, sum));
  }
};

// Elements are widened to 16 bits: vpmaddwd multiplies them and adds neighbours.
template <>
struct Dot<int8_t> {
  using Packet = __m256i;
  using Sum = __m256i;
  using Result = int32_t;
  static constexpr int kStep = 16;
  static REPRISE_INLINE Packet load_packet(const int8_t* p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static REPRISE_INLINE Packet load_packet_first(const int8_t* p, int n) {
    return _mm256_cvtepi8_epi16(load_first_8bit(p, n));
  }
  static REPRISE_INLINE Sum accumulate(Packet a, Packet b, Sum sum) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
  }
};
REPRISE_INLINE int32_t sum(__m256i v) {
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
REPRISE_INLINE void sum4(__m256i a, __m256i b, __m256i c, __m256i d, int32_t* out) {
  out[0] = sum(a);
  out[1] = sum(b);
  out[2] = sum(c);
  out[3] = sum(d);
}

// Register tile of products with panels: rows x vectors. kPairsAreFloats: several rows are widened
// to float32 first.
constexpr bool kPairsAreFloats = true;
constexpr int kPairTileRows = 5;
constexpr int kPairTileVecs = 2;
// Register tile of dot products. It uses 16 registers.
constexpr int kTileRows = 2;
constexpr int kTileColumns = 4;
constexpr int kSingleRowColumns = 8;
// Register tile of attention's scores, and of its weighted sums of values: rows x vectors.
constexpr int kAttentionTileRows = 6;
constexpr int kAttentionTileVecs = 2;
// Whether loading bfloat16 costs attention no more than loading float32, so that tiles of values
// read the cache itself.
constexpr bool kWidensWhileLoading = true;
