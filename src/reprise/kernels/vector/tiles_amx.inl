// The eight AMX tiles of the core that runs the calling thread.
//
// A kernel makes one object for all its blocks. The destructor returns the tiles to their initial
// state, so the next kernel finds no state, and a context switch need not save any. At most one
// object may exist at a time. tiles_software.inl computes the same bits without AMX.
//
// The instructions are inline assembly, because GCC 12 assumes that the configuration has only 8
// bytes and that loads read no memory, and then drops the stores before them.
class Tiles {
 public:
  Tiles() = default;
  ~Tiles() {
    if (is_configured_) __asm__ volatile("tilerelease");
  }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  /// All tiles are zero afterwards, unless they have these shapes already.
  REPRISE_INLINE void configure(const TileShapes& shapes) {
    if (is_configured_ && shapes == shapes_) return;
    shapes_ = shapes;
    is_configured_ = true;
    Configuration configuration;
    for (int t = 0; t < kTiles; ++t) {
      configuration.bytes[t] = shapes.bytes[t];
      configuration.rows[t] = shapes.rows[t];
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(configuration));
  }

  template <int kTile>
  REPRISE_INLINE void clear() {
    __asm__ volatile("tilezero %%tmm%c0" : : "n"(kTile));
  }
  /// Rows lie `stride` bytes apart.
  template <int kTile>
  REPRISE_INLINE void load(const void* rows, int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                     :
                     : "r"(rows), "r"(stride), "n"(kTile)
                     : "memory");
  }
  template <int kTile>
  REPRISE_INLINE void store(void* rows, int64_t stride) const {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                     :
                     : "r"(rows), "r"(stride), "n"(kTile)
                     : "memory");
  }

  /// sums += rows x columns. The tile of columns holds pairs of bfloat16: row i has elements 2i and
  /// 2i + 1 of every column.
  template <int kSums, int kRows, int kColumns>
  REPRISE_INLINE void add_bf16() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "n"(kSums), "n"(kRows), "n"(kColumns));
  }
  /// The same with bytes, in int32. The tile of columns holds groups of four bytes.
  template <int kSums, int kRows, int kColumns>
  REPRISE_INLINE void add_i8_i8() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "n"(kSums), "n"(kRows), "n"(kColumns));
  }
  /// Rows are signed, columns are not.
  template <int kSums, int kRows, int kColumns>
  REPRISE_INLINE void add_i8_u8() {
    __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "n"(kSums), "n"(kRows), "n"(kColumns));
  }
  /// Columns are signed, rows are not.
  template <int kSums, int kRows, int kColumns>
  REPRISE_INLINE void add_u8_i8() {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "n"(kSums), "n"(kRows), "n"(kColumns));
  }

 private:
  // Source: Intel SDM vol. 1, section 18.3 (TILECFG).
  struct Configuration {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
  };
  static_assert(sizeof(Configuration) == 64);

  TileShapes shapes_;
  bool is_configured_ = false;
};
