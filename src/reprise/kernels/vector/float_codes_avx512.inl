// Converts codes of panels of small floats (tensor/float_panels.h) to numbers: one vector of all 16
// columns for each element.

/// Float8, both types: 64 bytes are two pairs of elements of 16 columns.
template <bool kIsE5M2>
struct Float8Codes {
  static constexpr int kElements = 4;  // elements of a column that are decoded at once
  /// A number is the decoded one times this factor.
  static constexpr float kFactor = kIsE5M2 ? 1.0F : 256.0F;
  struct Table {};
  static REPRISE_INLINE Table load_table(const uint8_t*) { return {}; }
  static REPRISE_INLINE Table load_bf16_table(const uint8_t*) { return {}; }

  /// The bits of E5M2 are the upper half of a float16. The bits of E4M3, moved to the same fields
  /// of a float16, are a number that is too small by the factor 2^8; this holds for subnormals,
  /// too.
  static REPRISE_INLINE __m512i halves(__m512i upper_bytes) {
    if constexpr (kIsE5M2) {
      return _mm512_and_si512(upper_bytes, _mm512_set1_epi16(static_cast<int16_t>(0xff00)));
    } else {
      // The shift copies the sign into two bits.
      return _mm512_and_si512(_mm512_srai_epi16(upper_bytes, 1),
                              _mm512_set1_epi16(static_cast<int16_t>(0xbf80)));
    }
  }
  static REPRISE_INLINE void decode(const uint8_t* p, const Table&, Panel::Floats (&out)[4]) {
    const __m512i bytes = _mm512_loadu_si512(p);
    const __m512i even = halves(_mm512_slli_epi16(bytes, 8));
    const __m512i odd = halves(bytes);
    out[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(even));
    out[1] = _mm512_cvtph_ps(_mm512_castsi512_si256(odd));
    out[2] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(even, 1));
    out[3] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(odd, 1));
  }
};

/// Codes of four bits, each a number of a table: 64 bytes are eight elements of 16 columns.
struct Float4Codes {
  static constexpr int kElements = 8;
  static constexpr float kFactor = 1.0F;
  using Table = Vec;
  static REPRISE_INLINE Table load_table(const uint8_t* p) { return Panel::load_f32(p); }
  /// Loads the numbers of the table, rounded to bfloat16.
  static REPRISE_INLINE Table load_bf16_table(const uint8_t* p) {
    return widen_bf16(narrow_bf16(load_table(p)));
  }

  static REPRISE_INLINE void decode(const uint8_t* p, const Table& table, Panel::Floats (&out)[8]) {
    __m512i codes = _mm512_loadu_si512(p);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      // The look-up uses the lowest four bits of an index.
      out[i] = _mm512_permutexvar_ps(codes, table);
      codes = _mm512_srli_epi32(codes, 4);
    }
  }
};

/// Stores pairs of two elements of 16 columns, which bfloat16 represents exactly: [16][2].
REPRISE_INLINE void store_bf16_pairs(BFloat16* p, Vec even, Vec odd) {
  const __m512i low = _mm512_srli_epi32(_mm512_castps_si512(even), 16);
  _mm512_storeu_si512(p, _mm512_mask_blend_epi16(0xaaaaaaaaU, low, _mm512_castps_si512(odd)));
}

// Register tile: rows x panels. It uses 15 of 32 registers, and no load waits for another.
constexpr int kFloatTileRows = 6;
constexpr int kFloatTilePanels = 2;
// Number of panels with which a single row is multiplied at once, so that their sums need not wait
// for each other.
constexpr int kFloatRowPanels = 4;
// Up to this number of rows, codes are decoded in registers. More rows share codes that are decoded
// once.
constexpr int kFloatFewRows = 2;
