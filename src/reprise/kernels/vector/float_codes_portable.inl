// Converts codes of panels of small floats (tensor/float_panels.h) to numbers: all 16 columns for
// each element.

/// Float8, both types: 32 bytes are a pair of elements of 16 columns.
template <bool kIsE5M2>
struct Float8Codes {
  static constexpr int kElements = 4;  // elements of a column that are decoded at once
  /// A number is the decoded one times this factor.
  static constexpr float kFactor = 1.0F;
  struct Table {};
  static REPRISE_INLINE Table load_table(const uint8_t*) { return {}; }
  static REPRISE_INLINE Table load_bf16_table(const uint8_t*) { return {}; }

  static REPRISE_INLINE void decode(const uint8_t* p, const Table&, Panel::Floats (&out)[4]) {
    for (int i = 0; i < 4; ++i) {
      for (int c = 0; c < 16; ++c) {
        const uint8_t bits = p[i / 2 * 32 + c * 2 + i % 2];
        out[i].of[c] = kIsE5M2 ? to_float(Float8E5M2{bits}) : to_float(Float8E4M3{bits});
      }
    }
  }
};

/// Codes of four bits, each a number of a table: 64 bytes are eight elements of 16 columns.
struct Float4Codes {
  static constexpr int kElements = 8;
  static constexpr float kFactor = 1.0F;
  using Table = Panel::Floats;
  static REPRISE_INLINE Table load_table(const uint8_t* p) { return Panel::load_f32(p); }
  /// Loads the numbers of the table, rounded to bfloat16.
  static REPRISE_INLINE Table load_bf16_table(const uint8_t* p) {
    Table table = load_table(p);
    for (float& number : table.of) {
      BFloat16 rounded;
      store_element(&rounded, number);
      number = to_float(rounded);
    }
    return table;
  }

  static REPRISE_INLINE void decode(const uint8_t* p, const Table& table, Panel::Floats (&out)[8]) {
    for (int i = 0; i < 8; ++i) {
      for (int c = 0; c < 16; ++c) {
        const unsigned byte = p[c * 4 + i / 2];
        out[i].of[c] = table.of[i % 2 == 0 ? byte & 15U : byte >> 4];
      }
    }
  }
};

/// Stores pairs of two elements of 16 columns, which bfloat16 represents exactly: [16][2].
REPRISE_INLINE void store_bf16_pairs(BFloat16* p,
                                     const Panel::Floats& even,
                                     const Panel::Floats& odd) {
  for (int c = 0; c < 16; ++c) {
    p[2 * c].bits = static_cast<uint16_t>(float_to_bits(even.of[c]) >> 16);
    p[2 * c + 1].bits = static_cast<uint16_t>(float_to_bits(odd.of[c]) >> 16);
  }
}

// Register tile: rows x panels.
constexpr int kFloatTileRows = 2;
constexpr int kFloatTilePanels = 1;
// Number of panels with which a single row is multiplied at once.
constexpr int kFloatRowPanels = 1;
// Up to this number of rows, codes are decoded in registers. More rows share codes that are decoded
// once.
constexpr int kFloatFewRows = 1;
