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
  static REPRISE_INLINE double value_of(uint32_t x) {
    float value;
    __builtin_memcpy(&value, &x, sizeof value);
    return static_cast<double>(value);
  }
  static REPRISE_INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
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
    const int columns = shapes_.bytes[kSums] / 4;
    for (int r = 0; r < shapes_.rows[kSums]; ++r) {
      const uint8_t* row = tiles_[kRows] + r * kTileRowBytes;
      // The even elements of the depth have one sum, and the odd elements another. The inner loop
      // is over columns, whose sums do not wait for each other.
      uint32_t even[kTileRowBytes / 4] = {};
      uint32_t odd[kTileRowBytes / 4] = {};
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

  template <int kSums, int kRows, int kColumns, typename Row, typename Column>
  void add_bytes() {
    check_shapes<kSums, kRows, kColumns>();
    for (int r = 0; r < shapes_.rows[kSums]; ++r) {
      const uint8_t* row = tiles_[kRows] + r * kTileRowBytes;
      for (int c = 0; c < shapes_.bytes[kSums] / 4; ++c) {
        uint8_t* to = tiles_[kSums] + r * kTileRowBytes + 4 * c;
        uint32_t sum = element<uint32_t>(to, 0);  // wraps
        for (int i = 0; i < shapes_.bytes[kRows]; ++i) {
          sum += static_cast<uint32_t>(element<Row>(row, i) *
                                       element<Column>(entry(kColumns, i / 4, c), i % 4));
        }
        __builtin_memcpy(to, &sum, sizeof sum);
      }
    }
  }

  uint8_t tiles_[kTiles][kTileHeight * kTileRowBytes];
  TileShapes shapes_;
  bool is_configured_ = false;
};
