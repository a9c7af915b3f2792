// Vectors of 16 outputs, one per column of a panel (tensor/block_panels.h): codes of four elements
// each, sums of products, floats.
struct Panel {
  struct Codes {
    __m256i first;  // outputs 0 to 7
    __m256i last;
  };
  using Four = __m256i;  // four codes of an activation, for every column
  using Sums = Codes;
  struct Floats {
    Vec first = zero();
    Vec last = zero();
  };

  static REPRISE_INLINE Codes load(const uint8_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
  }
  static REPRISE_INLINE void store_codes(uint8_t* p, const Codes& codes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), codes.first);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), codes.last);
  }
  static REPRISE_INLINE Codes low_halves(const Codes& pairs) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(pairs.first, mask), _mm256_and_si256(pairs.last, mask)};
  }
  static REPRISE_INLINE Codes high_halves(const Codes& pairs) {
    return low_halves({_mm256_srli_epi16(pairs.first, 4), _mm256_srli_epi16(pairs.last, 4)});
  }
  template <int kShift>
  static REPRISE_INLINE __m256i shifted_bits(__m256i plane, int mask) {
    const __m256i shifted = kShift >= 0 ? _mm256_slli_epi16(plane, kShift > 0 ? kShift : 0)
                                        : _mm256_srli_epi16(plane, kShift < 0 ? -kShift : 0);
    return _mm256_and_si256(shifted, _mm256_set1_epi8(static_cast<char>(mask)));
  }
  /// The bits of `mask` of `plane`, shifted to the left by kShift; a negative kShift shifts to the
  /// right.
  template <int kShift>
  static REPRISE_INLINE Codes bits(const Codes& plane, int mask) {
    return {shifted_bits<kShift>(plane.first, mask), shifted_bits<kShift>(plane.last, mask)};
  }
  static REPRISE_INLINE Codes either(const Codes& a, const Codes& b) {
    return {_mm256_or_si256(a.first, b.first), _mm256_or_si256(a.last, b.last)};
  }
  /// Looks up the 16 bytes of `table` by code.
  static REPRISE_INLINE Codes look_up(const uint8_t* table, const Codes& codes) {
    const __m256i bytes =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
    return {_mm256_shuffle_epi8(bytes, codes.first), _mm256_shuffle_epi8(bytes, codes.last)};
  }

  /// Codes less `offset`, as signed bytes.
  static REPRISE_INLINE Codes minus(const Codes& codes, int offset) {
    const __m256i v = _mm256_set1_epi8(static_cast<char>(offset));
    return {_mm256_sub_epi8(codes.first, v), _mm256_sub_epi8(codes.last, v)};
  }

  static REPRISE_INLINE Sums start(int32_t value) {
    return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)};
  }
  static REPRISE_INLINE Four broadcast_four(const int8_t* x) {
    int32_t four;
    __builtin_memcpy(&four, x, sizeof(four));
    return _mm256_set1_epi32(four);
  }
  /// Makes the compiler add to `sums` where the source does. It would otherwise keep the products
  /// of many groups in memory and add them in another order.
  static REPRISE_INLINE __m256i in_order(__m256i sums) {
    asm("" : "+x"(sums));
    return sums;
  }
  static REPRISE_INLINE __m256i add_words(__m256i sums, __m256i words) {
    const __m256i pairs = _mm256_madd_epi16(words, _mm256_set1_epi16(1));
    return in_order(_mm256_add_epi32(sums, pairs));
  }
  // Pairs of products are added in 16 bits, which are sufficient for 2 * 128 * 127.
  static REPRISE_INLINE __m256i add_pairs(__m256i sums, __m256i unsigned_codes, __m256i x) {
    return add_words(sums, _mm256_maddubs_epi16(unsigned_codes, x));
  }
  static REPRISE_INLINE __m256i add_signed(__m256i sums, __m256i codes, __m256i x) {
    const __m256i weight = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
    return add_pairs(sums, _mm256_abs_epi8(weight), _mm256_sign_epi8(x, weight));
  }
  static constexpr int32_t kWideOffset = 0;
  /// Codes are values + 128, so the sums are too large by kWideOffset times the sum of x.
  static REPRISE_INLINE Sums add_wide(const Sums& sums, const Codes& codes, Four x) {
    return {add_signed(sums.first, codes.first, x), add_signed(sums.last, codes.last, x)};
  }
  /// Codes are less than 128.
  static REPRISE_INLINE Sums add_narrow(const Sums& sums, const Codes& codes, Four x) {
    return {add_pairs(sums.first, codes.first, x), add_pairs(sums.last, codes.last, x)};
  }

  // Small codes: the products of several groups are added in 16 bits (groups_in_words()).
  using WordSums = Codes;
  static REPRISE_INLINE WordSums multiply_words(const Codes& codes, Four x) {
    return {_mm256_maddubs_epi16(codes.first, x), _mm256_maddubs_epi16(codes.last, x)};
  }
  static REPRISE_INLINE WordSums add_words(const WordSums& a, const WordSums& b) {
    return {in_order(_mm256_add_epi16(a.first, b.first)),
            in_order(_mm256_add_epi16(a.last, b.last))};
  }
  static REPRISE_INLINE Sums add_word_sums(const Sums& sums, const WordSums& words) {
    return {add_words(sums.first, words.first), add_words(sums.last, words.last)};
  }
  /// `factors` times the two sums of an ActivationBlock, added.
  static REPRISE_INLINE Sums start_sums(const int16_t* sums_of_halves, __m256i factors) {
    int32_t both;
    __builtin_memcpy(&both, sums_of_halves, sizeof(both));
    const __m256i v = _mm256_madd_epi16(_mm256_set1_epi32(both), factors);
    return {v, v};
  }
  static REPRISE_INLINE __m256i start_factors(int first, int second) {
    return _mm256_set1_epi32((first & 0xffff) | (second << 16));
  }

  // Large codes for many rows of x: magnitudes and signs of the values. A negative value -v times
  // an element x is v times the inverted bits of x, which are -x - 1, plus v. So sums begin with
  // the magnitudes of all negative values.
  static constexpr int64_t kSignedBytes = 128;  // of a group
  static REPRISE_INLINE __m256i store_signed(uint8_t* p, __m256i codes) {
    const __m256i value = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
    const __m256i is_negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), value);
    const __m256i magnitude = _mm256_abs_epi8(value);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), magnitude);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 64), is_negative);
    return _mm256_maddubs_epi16(magnitude, is_negative);  // is_negative is -1 or 0
  }
  /// Returns minus the magnitudes of negative values, each two added.
  static REPRISE_INLINE WordSums store_signed(uint8_t* p, const Codes& codes) {
    return {store_signed(p, codes.first), store_signed(p + 32, codes.last)};
  }
  static REPRISE_INLINE Sums minus_word_sums(const WordSums& words) {
    const __m256i minus = _mm256_set1_epi16(-1);
    return {_mm256_madd_epi16(words.first, minus), _mm256_madd_epi16(words.last, minus)};
  }
  static REPRISE_INLINE Sums add_signed(const Sums& sums, const uint8_t* group, Four x) {
    const Codes magnitudes = load(group);
    const Codes signs = load(group + 64);
    return {add_pairs(sums.first, magnitudes.first, _mm256_xor_si256(x, signs.first)),
            add_pairs(sums.last, magnitudes.last, _mm256_xor_si256(x, signs.last))};
  }

  // Products of signed bytes. The sums of a panel with one row of x begin with start_bytes(). The
  // bytes are widened to 16 bits, because the sums of vpmaddubsw could saturate.
  struct Words {
    __m256i even;
    __m256i odd;
  };
  struct Bytes {  // codes of a weight
    Words first;
    Words last;
  };
  using FourBytes = Words;  // four elements of x, for every column
  static REPRISE_INLINE Words split_bytes(__m256i v) {
    return {_mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8), _mm256_srai_epi16(v, 8)};
  }
  static REPRISE_INLINE Sums start_bytes(const int8_t*) { return start(0); }
  static REPRISE_INLINE Bytes load_bytes(const int8_t* p) {
    const Codes codes = load(reinterpret_cast<const uint8_t*>(p));
    return {split_bytes(codes.first), split_bytes(codes.last)};
  }
  static REPRISE_INLINE FourBytes broadcast_bytes(const int8_t* x) {
    return split_bytes(broadcast_four(x));
  }
  /// Widens each four bytes, two even ones and two odd ones, so that broadcast_words() can read
  /// them.
  static REPRISE_INLINE void widen_bytes(const int8_t* x, int64_t count, int16_t* to) {
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
      const __m256i words =
          _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i)));
      const __m256i order = _mm256_broadcastsi128_si256(
          _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_shuffle_epi8(words, order));
    }
    for (; i < count; i += 4) {
      to[i] = x[i];
      to[i + 1] = x[i + 2];
      to[i + 2] = x[i + 1];
      to[i + 3] = x[i + 3];
    }
  }
  static REPRISE_INLINE FourBytes broadcast_words(const int16_t* x) {
    return {broadcast_four(reinterpret_cast<const int8_t*>(x)),
            broadcast_four(reinterpret_cast<const int8_t*>(x + 2))};
  }
  static REPRISE_INLINE __m256i add_words(__m256i sums, const Words& codes, const Words& x) {
    const __m256i even = in_order(_mm256_add_epi32(sums, _mm256_madd_epi16(codes.even, x.even)));
    return in_order(_mm256_add_epi32(even, _mm256_madd_epi16(codes.odd, x.odd)));
  }
  static REPRISE_INLINE Sums add_bytes(const Sums& sums, const Bytes& codes, const FourBytes& x) {
    return {add_words(sums.first, codes.first, x), add_words(sums.last, codes.last, x)};
  }
  static REPRISE_INLINE Sums load_sums(const int32_t* p) {
    return load(reinterpret_cast<const uint8_t*>(p));
  }
  static REPRISE_INLINE void store_sums(int32_t* p, const Sums& sums) {
    store_codes(reinterpret_cast<uint8_t*>(p), sums);
  }
  /// (sums * scale) * scales, rounded after each step.
  static REPRISE_INLINE Floats scaled(const Sums& sums, float scale, const Floats& scales) {
    const Vec x = broadcast(scale);
    return {mul(mul(_mm256_cvtepi32_ps(sums.first), x), scales.first),
            mul(mul(_mm256_cvtepi32_ps(sums.last), x), scales.last)};
  }

  static REPRISE_INLINE Floats load_floats(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }
  static REPRISE_INLINE Floats load_f32(const uint8_t* p) {
    return load_floats(reinterpret_cast<const float*>(p));
  }
  static REPRISE_INLINE Floats load_f16(const uint8_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16)))};
  }
  static REPRISE_INLINE Floats floats_of(__m128i unsigned_bytes) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(unsigned_bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(unsigned_bytes, 8)))};
  }
  static REPRISE_INLINE Floats load_u8(const uint8_t* p) {
    return floats_of(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  /// 2^(e - 128) for 16 bytes e; values of e below 2 give subnormal numbers.
  static REPRISE_INLINE __m256 powers_of(__m256i e) {
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, is_small));
  }
  static REPRISE_INLINE Floats load_powers(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {powers_of(_mm256_cvtepu8_epi32(bytes)),
            powers_of(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  static REPRISE_INLINE Floats load_i8(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
  }
  /// Either the low or the high halves of 16 bytes.
  static REPRISE_INLINE Floats load_low_half(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return floats_of(_mm_and_si128(bytes, _mm_set1_epi8(15)));
  }
  static REPRISE_INLINE Floats load_high_half(const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return floats_of(_mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15)));
  }
  static REPRISE_INLINE Floats times(const Floats& a, const Floats& b) {
    return {mul(a.first, b.first), mul(a.last, b.last)};
  }
  static REPRISE_INLINE Floats negative(const Floats& a) {
    return {sub(zero(), a.first), sub(zero(), a.last)};
  }
  /// total + sums * (scales * scale)
  static REPRISE_INLINE Floats accumulate(const Sums& sums,
                                          const Floats& scales,
                                          float scale,
                                          const Floats& total) {
    const Vec x = broadcast(scale);
    return {fma(_mm256_cvtepi32_ps(sums.first), mul(scales.first, x), total.first),
            fma(_mm256_cvtepi32_ps(sums.last), mul(scales.last, x), total.last)};
  }
  /// total + values * x
  static REPRISE_INLINE Floats accumulate(const Floats& values, float x, const Floats& total) {
    const Vec factor = broadcast(x);
    return {fma(values.first, factor, total.first), fma(values.last, factor, total.last)};
  }
  static REPRISE_INLINE void store(float* p, const Floats& v) {
    _mm256_storeu_ps(p, v.first);
    _mm256_storeu_ps(p + 8, v.last);
  }
};
// Register tile of matrix products: 8 of 16 registers hold sums.
constexpr int kPanelTileRows = 4;
// Whether products of small codes are added in 16 bits (groups_in_words()), and large codes are
// divided into magnitudes and signs.
constexpr bool kPanelSumsInWords = true;
// Several int8 rows are widened to 16 bits first.
constexpr bool kPanelWidensRows = true;
constexpr int kPanelTileColumns = 1;  // in panels
constexpr bool kPanelTilesReadNibbles = false;
