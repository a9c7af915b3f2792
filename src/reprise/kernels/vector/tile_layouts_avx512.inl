// Operations across lanes and the layout of tiles. A row of the tile of columns holds words of two
// bfloat16.

struct TileLayouts {
  /// rows[i] becomes column i.
  static REPRISE_INLINE void transpose(__m512i (&rows)[16]) {
    __m512i other[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      other[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
      other[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      rows[i] = _mm512_unpacklo_epi64(other[i], other[i + 2]);
      rows[i + 1] = _mm512_unpackhi_epi64(other[i], other[i + 2]);
      rows[i + 2] = _mm512_unpacklo_epi64(other[i + 1], other[i + 3]);
      rows[i + 3] = _mm512_unpackhi_epi64(other[i + 1], other[i + 3]);
    }
    // Now a quarter of rows[4i + j] holds column j, 4 + j, 8 + j or 12 + j of four rows.
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      other[j] = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x88);
      other[4 + j] = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xdd);
      other[8 + j] = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x88);
      other[12 + j] = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xdd);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      rows[j] = _mm512_shuffle_i32x4(other[j], other[8 + j], 0x88);
      rows[4 + j] = _mm512_shuffle_i32x4(other[4 + j], other[12 + j], 0x88);
      rows[8 + j] = _mm512_shuffle_i32x4(other[j], other[8 + j], 0xdd);
      rows[12 + j] = _mm512_shuffle_i32x4(other[4 + j], other[12 + j], 0xdd);
    }
  }

  /// Transposes the 16 words of each of 16 rows: word i of row r becomes word r of line i.
  static REPRISE_INLINE void transpose_words(const void* const* rows, void* lines) {
    __m512i words[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) words[i] = _mm512_loadu_si512(rows[i]);
    transpose(words);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      _mm512_storeu_si512(static_cast<uint32_t*>(lines) + 16 * i, words[i]);
    }
  }

  /// Transposes 16 columns of 32 rows of bfloat16: element i of row r becomes element r of line i.
  static REPRISE_INLINE void transpose_columns(const BFloat16* const* rows, BFloat16* lines) {
    __m512i words[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const auto* even = reinterpret_cast<const __m256i*>(rows[2 * i]);
      const auto* odd = reinterpret_cast<const __m256i*>(rows[2 * i + 1]);
      words[i] =
          _mm512_or_si512(_mm512_cvtepu16_epi32(_mm256_loadu_si256(even)),
                          _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(odd)), 16));
    }
    transpose(words);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) _mm512_storeu_si512(lines + 32 * i, words[i]);
  }
};

/// 2^x is scale(2^fraction) for |fraction| <= 1/2; 2^-inf is 0.
struct PowerOfTwo {
  Vec fraction;
  Vec whole;

  REPRISE_INLINE explicit PowerOfTwo(Vec x)
      : fraction(_mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)),
        whole(sub(x, fraction)) {}
  [[nodiscard]] REPRISE_INLINE Vec scale(Vec power) const {
    return scale_by_power_of_two(power, whole);
  }
};

/// Rounds two weights of each row to bfloat16, stores them as pairs, and returns their sum.
REPRISE_INLINE Vec store_weight_pairs(BFloat16* to, Vec first, Vec second) {
  const __m512i half = _mm512_set1_epi32(0x8000);
  const __m512i mask = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
  const __m512i low = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(first), half), mask);
  const __m512i high = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(second), half), mask);
  _mm512_storeu_si512(to, _mm512_or_si512(_mm512_srli_epi32(low, 16), high));
  return add(_mm512_castsi512_ps(low), _mm512_castsi512_ps(high));
}
