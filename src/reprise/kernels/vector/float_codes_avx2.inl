// Converts codes of panels of small floats (tensor/float_panels.h) to numbers: one vector of all 16
// columns for each element.

/// Float8, both types: 32 bytes are a pair of elements of 16 columns.
template <bool kIsE5M2>
struct Float8Codes {
  static constexpr int kElements = 4;  // elements of a column that are decoded at once
  /// A number is the decoded one times this factor.
  static constexpr float kFactor = kIsE5M2 ? 1.0F : 256.0F;
  struct Table {};
  static REPRISE_INLINE Table load_table(const uint8_t*) { return {}; }

  /// The bits of E5M2 are the upper half of a float16. The bits of E4M3, moved to the same fields
  /// of a float16, are a number that is too small by the factor 2^8; this holds for subnormals,
  /// too.
  static REPRISE_INLINE Panel::Floats floats(__m256i upper_bytes) {
    __m256i halves;
    if constexpr (kIsE5M2) {
      halves = _mm256_and_si256(upper_bytes, _mm256_set1_epi16(static_cast<int16_t>(0xff00)));
    } else {
      // The shift copies the sign into two bits.
      halves = _mm256_and_si256(_mm256_srai_epi16(upper_bytes, 1),
                                _mm256_set1_epi16(static_cast<int16_t>(0xbf80)));
    }
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
  }
  static REPRISE_INLINE void decode(const uint8_t* p, const Table&, Panel::Floats (&out)[4]) {
    const Panel::Codes bytes = Panel::load(p);
    out[0] = floats(_mm256_slli_epi16(bytes.first, 8));
    out[1] = floats(bytes.first);
    out[2] = floats(_mm256_slli_epi16(bytes.last, 8));
    out[3] = floats(bytes.last);
  }
};

/// Codes of four bits, each a number of a table: 64 bytes are eight elements of 16 columns.
struct Float4Codes {
  static constexpr int kElements = 8;
  static constexpr float kFactor = 1.0F;
  using Table = Panel::Floats;
  static REPRISE_INLINE Table load_table(const uint8_t* p) { return Panel::load_f32(p); }

  static REPRISE_INLINE Vec look_up(__m256i codes, const Table& table) {
    // A look-up uses the lowest three bits of an index. The fourth bit selects the half of the
    // table.
    const __m256 fourth = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.first, codes),
                            _mm256_permutevar8x32_ps(table.last, codes),
                            fourth);
  }
  static REPRISE_INLINE void decode(const uint8_t* p, const Table& table, Panel::Floats (&out)[8]) {
    Panel::Codes codes = Panel::load(p);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      out[i] = {look_up(codes.first, table), look_up(codes.last, table)};
      codes = {_mm256_srli_epi32(codes.first, 4), _mm256_srli_epi32(codes.last, 4)};
    }
  }
};

// Register tile: rows x panels. It uses 13 of 16 registers.
constexpr int kFloatTileRows = 5;
constexpr int kFloatTilePanels = 1;
// Number of panels with which a single row is multiplied at once.
constexpr int kFloatRowPanels = 2;
// Up to this number of rows, codes are decoded in registers. More rows share codes that are decoded
// once.
constexpr int kFloatFewRows = 2;
