// Sixteen float lanes: AVX-512 F/BW/VL/DQ. With REPRISE_ISA_HAS_BF16, products of bfloat16 pairs
// use vdpbf16ps; with REPRISE_ISA_HAS_VNNI, products of bytes use vpdpbusd.

using Vec = __m512;
constexpr int kLanes = 16;

REPRISE_INLINE Vec broadcast(float value) { return _mm512_set1_ps(value); }
REPRISE_INLINE Vec zero() { return _mm512_setzero_ps(); }
REPRISE_INLINE Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
REPRISE_INLINE Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
REPRISE_INLINE Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
REPRISE_INLINE Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
REPRISE_INLINE Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
// the result is NaN if b is NaN
REPRISE_INLINE Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
REPRISE_INLINE Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
REPRISE_INLINE Vec round_nearest(Vec x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
REPRISE_INLINE Vec round_up(Vec x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
/// x * 2^n for integral n.
REPRISE_INLINE Vec scale_by_power_of_two(Vec x, Vec n) { return _mm512_scalef_ps(x, n); }
REPRISE_INLINE __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1U << n) - 1U); }

REPRISE_INLINE Vec widen_bf16(__m256i v) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
// vcvtneps2bf16 is not used, because it flushes subnormals.
REPRISE_INLINE __m256i narrow_bf16(Vec v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i lowest = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(
      _mm512_add_epi32(bits, _mm512_add_epi32(lowest, _mm512_set1_epi32(0x7fff))), 16);
  const __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, is_nan, quiet));
}
REPRISE_INLINE __m256i narrow_f16(Vec v) {
  return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

REPRISE_INLINE Vec load(const float* p) { return _mm512_loadu_ps(p); }
REPRISE_INLINE Vec load(const BFloat16* p) {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
REPRISE_INLINE Vec load(const Float16* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
REPRISE_INLINE Vec load_first(const float* p, int n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
REPRISE_INLINE Vec load_first(const BFloat16* p, int n) {
  return widen_bf16(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
REPRISE_INLINE Vec load_first(const Float16* p, int n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
/// Moved to the same fields of a float16, the bits of a float8 are a number that is too small by
/// the factor 2^8; this holds for subnormals, too. Only the NaN of float8 becomes a number.
REPRISE_INLINE Vec widen_f8(__m128i v) {
  const __m256i shifted =
      _mm256_slli_epi16(_mm256_cvtepi8_epi16(v), 7);  // copies the sign into two bits
  const __m256i half = _mm256_andnot_si256(_mm256_set1_epi16(0x4000), shifted);
  const Vec x = mul(_mm512_cvtph_ps(half), broadcast(256.0F));
  const __m128i magnitude = _mm_and_si128(v, _mm_set1_epi8(0x7f));
  const __mmask16 is_nan = _mm_cmpeq_epi8_mask(magnitude, _mm_set1_epi8(0x7f));
  return _mm512_mask_mov_ps(x, is_nan, broadcast(__builtin_nanf("")));
}
REPRISE_INLINE Vec load(const Float8E4M3* p) {
  return widen_f8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
REPRISE_INLINE Vec load_first(const Float8E4M3* p, int n) {
  return widen_f8(_mm_maskz_loadu_epi8(first_lanes(n), p));
}
/// The bits of an E5M2 float8 are the upper half of a float16.
REPRISE_INLINE Vec load(const Float8E5M2* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8));
}
REPRISE_INLINE Vec load(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}
REPRISE_INLINE void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
REPRISE_INLINE void store(BFloat16* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(v));
}
REPRISE_INLINE void store(Float16* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_f16(v));
}
/// The lanes hold whole numbers from -128 to 127.
REPRISE_INLINE void store(int8_t* p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}
REPRISE_INLINE void store_first(float* p, Vec v, int n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), v);
}
REPRISE_INLINE void store_first(BFloat16* p, Vec v, int n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), narrow_bf16(v));
}
REPRISE_INLINE void store_first(Float16* p, Vec v, int n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), narrow_f16(v));
}

/// Keeps v in lanes [begin, end), and takes `other` elsewhere; 0 <= begin, end <= 16.
REPRISE_INLINE Vec keep_lanes(Vec v, int begin, int end, float other) {
  const unsigned kept = ((1U << end) - 1U) & ~((1U << begin) - 1U);
  return _mm512_mask_mov_ps(broadcast(other), static_cast<__mmask16>(kept), v);
}

/// Keeps v in the lanes where least <= x < most, and takes `other` elsewhere.
REPRISE_INLINE Vec keep_between(Vec v, Vec x, Vec least, Vec most, float other) {
  const __mmask16 kept =
      _mm512_cmp_ps_mask(x, least, _CMP_GE_OQ) & _mm512_cmp_ps_mask(x, most, _CMP_LT_OQ);
  return _mm512_mask_mov_ps(broadcast(other), kept, v);
}
/// Keeps v in the lanes where x is at least `least`, and 0 elsewhere.
REPRISE_INLINE Vec keep_at_least(Vec v, Vec x, Vec least) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, least, _CMP_GE_OQ), v);
}

REPRISE_INLINE __m128 fold(Vec v) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}
/// The sums of four vectors. Each is added in the same fixed order: the two halves, then the two
/// quarters, then lanes 0+2 and 1+3, then these two sums.
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
/// Computes the same sums of a whole 4 x 4 tile, in the same order. Each of the four steps combines
/// vectors and halves their number: 15 additions instead of 56.
REPRISE_INLINE void sum_tile(const Vec (&sums)[4][4], float* out, int64_t out_stride) {
  const auto halves = [](Vec a, Vec b) REPRISE_LAMBDA_INLINE {
    return add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  };
  const auto quarters = [](Vec a, Vec b) REPRISE_LAMBDA_INLINE {
    return add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  };
  const auto pairs = [](Vec a, Vec b) REPRISE_LAMBDA_INLINE {
    return add(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
  };
  Vec columns[4];  // four lanes of every row
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c)
    columns[c] = quarters(halves(sums[0][c], sums[1][c]), halves(sums[2][c], sums[3][c]));
  const Vec left = pairs(columns[0], columns[1]);
  const Vec right = pairs(columns[2], columns[3]);
  const Vec rows = add(_mm512_shuffle_ps(left, right, 0x88), _mm512_shuffle_ps(left, right, 0xdd));
  _mm_storeu_ps(out, _mm512_extractf32x4_ps(rows, 0));
  _mm_storeu_ps(out + out_stride, _mm512_extractf32x4_ps(rows, 1));
  _mm_storeu_ps(out + 2 * out_stride, _mm512_extractf32x4_ps(rows, 2));
  _mm_storeu_ps(out + 3 * out_stride, _mm512_extractf32x4_ps(rows, 3));
}
/// Transposes the 16 words of each of 16 rows from `element` on: word i of row r becomes lane r of
/// lines[i]. Loads of half a vector replace a quarter of the shuffles, because a core executes only
/// one shuffle at a time.
template <typename T>
REPRISE_INLINE void load_transposed(const T* const* rows, int64_t element, Vec (&lines)[kLanes]) {
#pragma GCC unroll 2
  for (int half = 0; half < 16; half += 8) {
    const auto words = [&](int row) REPRISE_LAMBDA_INLINE {
      return _mm256_loadu_ps(reinterpret_cast<const float*>(rows[row] + element) + half);
    };
    const auto both = [&](int first, int second) REPRISE_LAMBDA_INLINE {
      return _mm512_insertf32x8(_mm512_castps256_ps512(words(first)), words(second), 1);
    };
    Vec columns[2][4];  // quarters: column c, then column c + 4, of four rows each
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const Vec a = both(8 * i, 8 * i + 4);
      const Vec b = both(8 * i + 1, 8 * i + 5);
      const Vec c = both(8 * i + 2, 8 * i + 6);
      const Vec d = both(8 * i + 3, 8 * i + 7);
      const Vec ab_low = _mm512_unpacklo_ps(a, b);
      const Vec ab_high = _mm512_unpackhi_ps(a, b);
      const Vec cd_low = _mm512_unpacklo_ps(c, d);
      const Vec cd_high = _mm512_unpackhi_ps(c, d);
      columns[i][0] = _mm512_shuffle_ps(ab_low, cd_low, 0x44);
      columns[i][1] = _mm512_shuffle_ps(ab_low, cd_low, 0xee);
      columns[i][2] = _mm512_shuffle_ps(ab_high, cd_high, 0x44);
      columns[i][3] = _mm512_shuffle_ps(ab_high, cd_high, 0xee);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      lines[half + c] = _mm512_shuffle_f32x4(columns[0][c], columns[1][c], 0x88);
      lines[half + 4 + c] = _mm512_shuffle_f32x4(columns[0][c], columns[1][c], 0xdd);
    }
  }
}
/// Either the first or the second elements of pairs of bfloat16.
REPRISE_INLINE Vec first_of_pairs(Vec pairs) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs), 16));
}
REPRISE_INLINE Vec second_of_pairs(Vec pairs) {
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(pairs), high));
}
REPRISE_INLINE float maximum(Vec v) { return _mm512_reduce_max_ps(v); }
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

REPRISE_INLINE __m512i load_first_32(const BFloat16* p, int n) {
  return _mm512_maskz_loadu_epi16(static_cast<__mmask32>((1ULL << n) - 1ULL), p);
}

/// Loads two neighbouring elements as one 32-bit number.
REPRISE_INLINE int load_pair(const BFloat16* p) {
  int pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return pair;
}

#ifdef REPRISE_ISA_HAS_BF16
/// Stores words of two elements each.
REPRISE_INLINE void store_words(BFloat16* to, Vec words) { _mm512_storeu_ps(to, words); }
/// Element 2 * i of `pairs` becomes first[i], and element 2 * i + 1 becomes second[i], for 32
/// elements.
REPRISE_INLINE void interleave(const BFloat16* first, const BFloat16* second, __m512i (&pairs)[2]) {
  const __m512i a = _mm512_loadu_si512(first);
  const __m512i b = _mm512_loadu_si512(second);
  alignas(64) static constexpr uint16_t kLow[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                    37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                    11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low = _mm512_load_si512(kLow);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  pairs[0] = _mm512_permutex2var_epi16(a, low, b);
  pairs[1] = _mm512_permutex2var_epi16(a, high, b);
}
/// The same, stored.
REPRISE_INLINE void interleave(BFloat16* to, const BFloat16* first, const BFloat16* second) {
  __m512i pairs[2];
  interleave(first, second, pairs);
  _mm512_storeu_si512(to, pairs[0]);
  _mm512_storeu_si512(to + 32, pairs[1]);
}
/// Lane r of the result is `reduce` over all lanes of rows[r], in an order that is the same for all
/// rows. The other lanes repeat these results.
template <typename Reduce>
REPRISE_INLINE Vec reduce_rows(const Vec (&rows)[8], const Reduce& reduce) {
  Vec pairs[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    pairs[i] = reduce(_mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]),
                      _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]));
  }
  Vec fours[2];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    fours[i] = reduce(_mm512_shuffle_ps(pairs[2 * i], pairs[2 * i + 1], 0x44),
                      _mm512_shuffle_ps(pairs[2 * i], pairs[2 * i + 1], 0xee));
  }
  const Vec quarters = reduce(_mm512_shuffle_f32x4(fours[0], fours[1], 0x44),
                              _mm512_shuffle_f32x4(fours[0], fours[1], 0xee));
  const Vec all = reduce(quarters, _mm512_shuffle_f32x4(quarters, quarters, 0xb1));
  return _mm512_shuffle_f32x4(all, all, 0x88);
}
REPRISE_INLINE Vec max_of_rows(const Vec (&rows)[8]) {
  return reduce_rows(rows, [](Vec a, Vec b) REPRISE_LAMBDA_INLINE { return max(a, b); });
}
REPRISE_INLINE Vec sum_of_rows(const Vec (&rows)[8]) {
  return reduce_rows(rows, [](Vec a, Vec b) REPRISE_LAMBDA_INLINE { return add(a, b); });
}

/// 2^x is scale(2^fraction) for |fraction| <= 1/2. A float32 below 2^-126 is not normal, and
/// rounding to bfloat16 makes it 0.
struct PowerOfTwo {
  Vec fraction;
  __m512i exponent;

  REPRISE_INLINE explicit PowerOfTwo(Vec x) {
    x = max(broadcast(-126.0F), x);  // keeps a NaN
    // The sum has the whole part of x in its lowest bits.
    const Vec magic = broadcast(0x1.8p23F);
    const Vec shifted = add(x, magic);
    fraction = sub(x, sub(shifted, magic));
    exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
  }
  [[nodiscard]] REPRISE_INLINE Vec scale(Vec power) const {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(power), exponent));
  }
};

/// The sums of pairs of bfloat16.
REPRISE_INLINE Vec sum_pairs(__m512i pairs) {
  const __m512i ones = _mm512_set1_epi32(0x3f803f80);
  return _mm512_dpbf16_ps(
      zero(), reinterpret_cast<__m512bh>(pairs), reinterpret_cast<__m512bh>(ones));
}
/// Rounds 32 weights to bfloat16, with subnormal numbers as zero, and stores them. Returns the sums
/// of neighbours.
REPRISE_INLINE Vec store_weights(BFloat16* to, Vec first, Vec second) {
  const auto rounded = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
  _mm512_storeu_si512(to, rounded);
  return sum_pairs(rounded);
}
/// The same for pairs of the same lane of `first` and `second`.
REPRISE_INLINE Vec store_weight_pairs(BFloat16* to, Vec first, Vec second) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto rounded = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
  const __m512i pairs = _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), rounded);
  _mm512_storeu_si512(to, pairs);
  return sum_pairs(pairs);
}

// The instruction flushes subnormal inputs and partial sums to zero, which does not matter to a dot
// product.
template <>
struct Dot<BFloat16> {
  using Packet = __m512i;
  using Sum = Vec;
  using Result = float;
  static constexpr int kStep = 2 * kLanes;
  static REPRISE_INLINE Packet load_packet(const BFloat16* p) { return _mm512_loadu_si512(p); }
  static REPRISE_INLINE Packet packet_of(Vec words) { return _mm512_castps_si512(words); }
  static REPRISE_INLINE Packet broadcast_pair(const BFloat16* p) {
    return _mm512_set1_epi32(load_pair(p));
  }
  static REPRISE_INLINE Packet load_packet_first(const BFloat16* p, int n) {
    return load_first_32(p, n);
  }
  static REPRISE_INLINE Vec accumulate(Packet a, Packet b, Vec sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};
#else
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
  static REPRISE_INLINE Packet split(__m512i pairs) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)),
            _mm512_castsi512_ps(_mm512_and_si512(pairs, high))};
  }
  static REPRISE_INLINE Packet load_packet(const BFloat16* p) {
    return split(_mm512_loadu_si512(p));
  }
  static REPRISE_INLINE Packet broadcast_pair(const BFloat16* p) {
    return split(_mm512_set1_epi32(load_pair(p)));
  }
  static REPRISE_INLINE Packet load_packet_first(const BFloat16* p, int n) {
    return split(load_first_32(p, n));
  }
  static REPRISE_INLINE Vec accumulate(const Packet& a, const Packet& b, Vec sum) {
    return fma(a.odd, b.odd, fma(a.even, b.even, sum));
  }
};
#endif

// Elements are widened to 16 bits: vpmaddwd multiplies them and adds neighbours.
template <>
struct Dot<int8_t> {
  using Packet = __m512i;
  using Sum = __m512i;
  using Result = int32_t;
  static constexpr int kStep = 2 * kLanes;
  static REPRISE_INLINE Packet load_packet(const int8_t* p) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static REPRISE_INLINE Packet load_packet_first(const int8_t* p, int n) {
    const auto first = static_cast<__mmask32>((1ULL << n) - 1ULL);
    return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(first, p));
  }
  static REPRISE_INLINE Sum accumulate(Packet a, Packet b, Sum sum) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
  }
};
REPRISE_INLINE int32_t sum(__m512i v) { return _mm512_reduce_add_epi32(v); }
REPRISE_INLINE void sum4(__m512i a, __m512i b, __m512i c, __m512i d, int32_t* out) {
  out[0] = sum(a);
  out[1] = sum(b);
  out[2] = sum(c);
  out[3] = sum(d);
}

// Register tile of products with panels: rows x vectors. kPairsAreFloats: several rows are widened
// to float32 first.
#ifdef REPRISE_ISA_HAS_BF16
constexpr bool kPairsAreFloats = false;
constexpr int kPairTileRows = 6;
#else
constexpr bool kPairsAreFloats = true;
constexpr int kPairTileRows = 5;
#endif
constexpr int kPairTileVecs = 4;
// Register tile of dot products. It uses 32 registers.
constexpr int kTileRows = 4;
constexpr int kTileColumns = 4;
constexpr int kSingleRowColumns = 8;
// Register tile of attention's scores, and of its weighted sums of values: rows x vectors.
constexpr int kAttentionTileRows = 8;
constexpr int kAttentionTileVecs = 2;
// Whether loading bfloat16 costs attention no more than loading float32, so that tiles of values
// read the cache itself.
constexpr bool kWidensWhileLoading = false;
