// The class Tiles of tiles_amx.inl for any machine, with the bits of the instructions.

// Source: the pseudocode of TDPBF16PS in Intel SDM vol. 2. What it leaves open (when a result
// counts as subnormal, which NaN wins) is as measured; tiles_test.cpp compares both classes.
struct TileArithmetic {
  static constexpr uint32_t kSign = 0x80000000U;
  static constexpr uint32_t kInfinity = 0x7f800000U;
  static constexpr uint32_t kQuiet = 0x00400000U;
  static constexpr uint32_t kDefaultNan = 0xffc00000U;
  static constexpr double kLeastNormal = 0x1p-126;

  static REPRISE_INLINE bool is_nan(uint32_t x) { return (x & ~kSign) > kInfinity; }
  /// Subnormal inputs count as zero.
  static REPRISE_INLINE uint32_t flush(uint32_t x) { return (x & kInfinity) == 0 ? x & kSign : x; }
  static REPRISE_INLINE float float_of(uint32_t x) {
    float value;
    __builtin_memcpy(&value, &x, sizeof value);
    return value;
  }
  static REPRISE_INLINE double value_of(uint32_t x) { return static_cast<double>(float_of(x)); }
  static REPRISE_INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
  }

  /// Not zero: x is not zero and smaller than twice the least normal float, or not finite. Without
  /// branches, so that a loop becomes vectors.
  static REPRISE_INLINE uint32_t is_special(float x) {
    const uint32_t size = bits_of(x) & ~kSign;
    return static_cast<uint32_t>(size != 0) &
           static_cast<uint32_t>(size - 0x01000000U >= kInfinity - 0x01000000U);
  }

  /// a + b in double, with the last bit set if the sum is not exact. Rounding such a sum to float
  /// gives the float that is nearest to the exact sum.
  static REPRISE_INLINE double sum_to_odd(double a, double b) {
    const double sum = a + b;
    const double b_of_sum = sum - a;
    const double error = (a - (sum - b_of_sum)) + (b - b_of_sum);
    int64_t bits;
    __builtin_memcpy(&bits, &sum, sizeof bits);
    if (error == 0 || (bits & 1) != 0) return sum;
    bits += (error > 0) == (sum > 0) ? 1 : -1;
    double odd;
    __builtin_memcpy(&odd, &bits, sizeof odd);
    return odd;
  }

  /// Rounds to the nearest float, which becomes zero where a float with an unlimited exponent would
  /// be below the least normal float.
  static REPRISE_INLINE uint32_t round_sum(double a, double b) {
    const double plain = a + b;
    if (plain != plain) return kDefaultNan;
    if (plain - plain != 0) return bits_of(static_cast<float>(plain));  // infinite
    const double sum = sum_to_odd(a, b);
    const uint32_t rounded = bits_of(static_cast<float>(sum));
    // At 2^32 times its size, the sum is rounded as a normal float.
    const float larger = static_cast<float>(sum * 0x1p32);
    const bool is_tiny = larger < 0x1p-94F && larger > -0x1p-94F;
    return is_tiny ? rounded & kSign : rounded;
  }

  static REPRISE_INLINE uint32_t add(uint32_t a, uint32_t b) {
    if (is_nan(a)) return a | kQuiet;
    if (is_nan(b)) return b | kQuiet;
    return round_sum(value_of(flush(a)), value_of(flush(b)));
  }
  /// sum + a * b for bfloat16 a and b. The product is exact in double.
  static REPRISE_INLINE uint32_t multiply_add(uint16_t a, uint16_t b, uint32_t sum) {
    const uint32_t wide_a = static_cast<uint32_t>(a) << 16;
    const uint32_t wide_b = static_cast<uint32_t>(b) << 16;
    if (is_nan(wide_a)) return wide_a | kQuiet;
    if (is_nan(wide_b)) return wide_b | kQuiet;
    if (is_nan(sum)) return sum | kQuiet;
    return round_sum(value_of(flush(wide_a)) * value_of(flush(wide_b)), value_of(flush(sum)));
  }
};

class Tiles {
 public:
  Tiles() = default;
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  void configure(const TileShapes& shapes) {
    if (is_configured_ && shapes == shapes_) return;
    shapes_ = shapes;
    is_configured_ = true;
    __builtin_memset(tiles_, 0, sizeof tiles_);
  }

  template <int kTile>
  void clear() {
    __builtin_memset(tiles_[kTile], 0, sizeof tiles_[kTile]);
  }
  template <int kTile>
  void load(const void* rows, int64_t stride) {
    clear<kTile>();
    for (int r = 0; r < shapes_.rows[kTile]; ++r) {
      __builtin_memcpy(tiles_[kTile] + r * kTileRowBytes,
                       static_cast<const uint8_t*>(rows) + r * stride,
                       shapes_.bytes[kTile]);
    }
  }
  template <int kTile>
  void store(void* rows, int64_t stride) const {
    for (int r = 0; r < shapes_.rows[kTile]; ++r) {
      __builtin_memcpy(static_cast<uint8_t*>(rows) + r * stride,
                       tiles_[kTile] + r * kTileRowBytes,
                       shapes_.bytes[kTile]);
    }
  }

  template <int kSums, int kRows, int kColumns>
  void add_bf16() {
    check_shapes<kSums, kRows, kColumns>();
    for (int r = 0; r < shapes_.rows[kSums]; ++r) {
      if (!add_plain_row<kSums, kRows, kColumns>(r)) add_row<kSums, kRows, kColumns>(r);
    }
  }
  template <int kSums, int kRows, int kColumns>
  void add_i8_i8() {
    add_bytes<kSums, kRows, kColumns, int8_t, int8_t>();
  }
  template <int kSums, int kRows, int kColumns>
  void add_i8_u8() {
    add_bytes<kSums, kRows, kColumns, int8_t, uint8_t>();
  }
  template <int kSums, int kRows, int kColumns>
  void add_u8_i8() {
    add_bytes<kSums, kRows, kColumns, uint8_t, int8_t>();
  }

 private:
  using A = TileArithmetic;

  template <typename T>
  static T element(const uint8_t* p, int index) {
    T value;
    __builtin_memcpy(&value, p + static_cast<size_t>(index) * sizeof value, sizeof value);
    return value;
  }
  /// The four bytes of a column in row `row`.
  const uint8_t* entry(int tile, int row, int column) const {
    return tiles_[tile] + row * kTileRowBytes + 4 * column;
  }

  /// The instructions raise an exception for other shapes.
  template <int kSums, int kRows, int kColumns>
  void check_shapes() const {
    if (shapes_.rows[kSums] != shapes_.rows[kRows] ||
        shapes_.bytes[kSums] != shapes_.bytes[kColumns] ||
        shapes_.bytes[kRows] != 4 * shapes_.rows[kColumns]) {
      __builtin_trap();
    }
  }

  /// One row of add_bf16. The even elements of the depth have one sum, and the odd elements
  /// another. The inner loop is over columns, whose sums do not wait for each other.
  template <int kSums, int kRows, int kColumns>
  void add_row(int r) {
    const int columns = shapes_.bytes[kSums] / 4;
    const uint8_t* row = tiles_[kRows] + r * kTileRowBytes;
    uint32_t even[kTileSumColumns] = {};
    uint32_t odd[kTileSumColumns] = {};
    for (int i = 0; i < shapes_.bytes[kRows] / 4; ++i) {
      const auto first = element<uint16_t>(row, 2 * i);
      const auto second = element<uint16_t>(row, 2 * i + 1);
      for (int c = 0; c < columns; ++c) {
        const uint8_t* two = entry(kColumns, i, c);
        even[c] = A::multiply_add(first, element<uint16_t>(two, 0), even[c]);
        odd[c] = A::multiply_add(second, element<uint16_t>(two, 1), odd[c]);
      }
    }
    for (int c = 0; c < columns; ++c) {
      uint8_t* to = tiles_[kSums] + r * kTileRowBytes + 4 * c;
      const uint32_t sum = A::add(element<uint32_t>(to, 0), A::add(even[c], odd[c]));
      __builtin_memcpy(to, &sum, sizeof sum);
    }
  }

  /// The same in float32, some ten times as fast. A product of two bfloat16 is exact there, so each
  /// sum is rounded once. Returns false and changes nothing if a number is subnormal, infinite, NaN
  /// or near to that. All columns of the tile are computed; those beyond the shape are zero.
  template <int kSums, int kRows, int kColumns>
  bool add_plain_row(int r) {
    const uint8_t* row = tiles_[kRows] + r * kTileRowBytes;
    float even[kTileSumColumns] = {};
    float odd[kTileSumColumns] = {};
    uint32_t special = 0;
    for (int i = 0; i < shapes_.bytes[kRows] / 4; ++i) {
      const float first = A::float_of(uint32_t{element<uint16_t>(row, 2 * i)} << 16);
      const float second = A::float_of(uint32_t{element<uint16_t>(row, 2 * i + 1)} << 16);
      special |= A::is_special(first) | A::is_special(second);
      for (int c = 0; c < kTileSumColumns; ++c) {
        const auto two = element<uint32_t>(entry(kColumns, i, c), 0);
        const float left = A::float_of(two << 16);
        const float right = A::float_of(two & 0xffff0000U);
        const float left_product = first * left;
        const float right_product = second * right;
        even[c] += left_product;
        odd[c] += right_product;
        special |= A::is_special(left) | A::is_special(right) | A::is_special(left_product) |
                   A::is_special(right_product) | A::is_special(even[c]) | A::is_special(odd[c]);
      }
    }
    float sums[kTileSumColumns];
    uint8_t* to = tiles_[kSums] + r * kTileRowBytes;
    __builtin_memcpy(sums, to, sizeof sums);
    for (int c = 0; c < kTileSumColumns; ++c) {
      const float both = even[c] + odd[c];
      special |= A::is_special(sums[c]) | A::is_special(both);
      sums[c] += both;
      special |= A::is_special(sums[c]);
    }
    if (special != 0) return false;
    __builtin_memcpy(to, sums, shapes_.bytes[kSums]);
    return true;
  }

  template <int kSums, int kRows, int kColumns, typename Row, typename Column>
  void add_bytes() {
    check_shapes<kSums, kRows, kColumns>();
    for (int r = 0; r < shapes_.rows[kSums]; ++r) {
      const uint8_t* row = tiles_[kRows] + r * kTileRowBytes;
      uint8_t* to = tiles_[kSums] + r * kTileRowBytes;
      uint32_t sums[kTileSumColumns];  // wrap
      __builtin_memcpy(sums, to, sizeof sums);
      for (int i = 0; i < shapes_.bytes[kRows] / 4; ++i) {
        Row four[4];
        __builtin_memcpy(four, row + 4 * i, sizeof four);
        Column columns[4 * kTileSumColumns];
        __builtin_memcpy(columns, entry(kColumns, i, 0), sizeof columns);
        for (int c = 0; c < kTileSumColumns; ++c) {
          int32_t sum = 0;
          for (int k = 0; k < 4; ++k) sum += four[k] * columns[4 * c + k];
          sums[c] += static_cast<uint32_t>(sum);
        }
      }
      __builtin_memcpy(to, sums, shapes_.bytes[kSums]);
    }
  }

  uint8_t tiles_[kTiles][kTileHeight * kTileRowBytes];
  TileShapes shapes_;
  bool is_configured_ = false;
};
