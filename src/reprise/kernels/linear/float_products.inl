// Products of rows of any float type with a weight in panels of smaller floats
// (tensor/float_panels.h). Codes become float32 in registers, and rows of x become float32, too. A
// lane adds the products of one output, element after element, over the depth that shares a scale;
// then this sum is scaled and added to the result. So the order of a sum depends only on the depth,
// and a row has the same bits in any batch. Rows of bfloat16 have other kernels on instruction sets
// that multiply bfloat16, see below.

// The number of elements of the depth whose weights are decoded at once if several rows share them.
// The decoded elements of two panels and as many elements of the rows of x stay in the first cache
// level.
constexpr int64_t kFloatStretch = 128;
// The number of rows of x that are converted at once.
constexpr int64_t kFloatRows = 64;
// The distance at which products of few rows prefetch weights, in bytes per panel: with it,
// decoding reads at the full speed of the memory.
constexpr int64_t kFloatBytesAhead = 2048;
// One load of codes decodes four or eight elements of 16 columns.
constexpr int64_t kBytesOfCodes = 64;

/// Calls `f` with an object of the type that decodes the codes of float panels.
template <typename F>
inline void with_float_codes(PanelFormat codec, const F& f) {
  switch (codec) {
    case PanelFormat::f8e4m3_rows:
    case PanelFormat::f8e4m3_g128:
      return f(Float8Codes<false>());
    case PanelFormat::f8e5m2_rows:
    case PanelFormat::f8e5m2_g128:
      return f(Float8Codes<true>());
    case PanelFormat::f4_g64:
      return f(Float4Codes());
    default:  // codecs of other families
      return;
  }
}

/// One stretch of the depth, for some rows and panels.
struct FloatStretch {
  const float* x;  // [rows, kFloatStretch]
  int64_t rows;
  const uint8_t* const* panels;  // whole panels, from their beginning
  int64_t num_panels;
  int64_t first;  // elements of the depth
  int64_t last;
  float* sums;    // [rows, num_panels, 16]: the sums of a group that is not complete yet
  float* totals;  // the same, of complete groups
};

/// out[r][p] += the products of row r with `elements` elements of panel p, whose codes are decoded
/// in registers.
template <typename Codes, int kRows, int kPanels>
REPRISE_INLINE void add_few_float_rows(const float* x,
                                       const uint8_t* const* codes,
                                       const typename Codes::Table* tables,
                                       int64_t elements,
                                       float* out,
                                       int64_t out_stride) {
  Panel::Floats sums[kRows][kPanels];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      sums[r][p] = Panel::load_floats(out + r * out_stride + p * kPanelColumns);
    }
  }
  for (int64_t i = 0; i < elements; i += Codes::kElements) {
    const int64_t offset = i / Codes::kElements * kBytesOfCodes;
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      Panel::Floats weights[Codes::kElements];
      Codes::decode(codes[p] + offset, tables[p], weights);
      __builtin_prefetch(codes[p] + offset + kFloatBytesAhead, 0, 2);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
        for (int e = 0; e < Codes::kElements; ++e) {
          sums[r][p] = Panel::accumulate(weights[e], x[r * kFloatStretch + i + e], sums[r][p]);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      Panel::store(out + r * out_stride + p * kPanelColumns, sums[r][p]);
    }
  }
}

/// out[r][p] += the products of row r with `elements` decoded elements of panel p.
template <int kRows, int kPanels>
REPRISE_INLINE void add_float_tile(
    const float* x, const float* weights, int64_t elements, float* out, int64_t out_stride) {
  Panel::Floats sums[kRows][kPanels];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      sums[r][p] = Panel::load_floats(out + r * out_stride + p * kPanelColumns);
    }
  }
  for (int64_t i = 0; i < elements; ++i) {
    Panel::Floats columns[kPanels];
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      columns[p] = Panel::load_floats(weights + (p * kFloatStretch + i) * kPanelColumns);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float factor = x[r * kFloatStretch + i];
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) {
        sums[r][p] = Panel::accumulate(columns[p], factor, sums[r][p]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      Panel::store(out + r * out_stride + p * kPanelColumns, sums[r][p]);
    }
  }
}

/// The products of all rows with `elements` decoded elements of each panel.
template <int kPanels>
inline void add_float_tiles(
    const FloatStretch& s, const float* x, const float* weights, int64_t elements, float* out) {
  const int64_t stride = s.num_panels * kPanelColumns;
  int64_t r = 0;
  for (; r + kFloatTileRows <= s.rows; r += kFloatTileRows) {
    add_float_tile<kFloatTileRows, kPanels>(
        x + r * kFloatStretch, weights, elements, out + r * stride, stride);
  }
  for_numbers<1, kFloatTileRows>([&](auto count) REPRISE_LAMBDA_INLINE {
    if (s.rows - r != count.value) return;
    add_float_tile<count.value, kPanels>(
        x + r * kFloatStretch, weights, elements, out + r * stride, stride);
  });
}

/// totals += sums * scales, then the sums of the next group begin with 0. The group begins `group`
/// bytes after the beginning of a panel.
template <typename Codes>
inline void finish_float_group(const LinearArguments& a, const FloatStretch& s, int64_t group) {
  const int64_t scales = group + a.group / Codes::kElements * kBytesOfCodes;
  for (int64_t p = 0; p < s.num_panels; ++p) {
    for (int64_t c = 0; c < kPanelColumns; c += kLanes) {
      const auto* from = reinterpret_cast<const float*>(s.panels[p] + scales);
      const Vec scale = mul(load(from + c), broadcast(Codes::kFactor));
      for (int64_t r = 0; r < s.rows; ++r) {
        const int64_t at = (r * s.num_panels + p) * kPanelColumns + c;
        store(s.totals + at, fma(load(s.sums + at), scale, load(s.totals + at)));
        store(s.sums + at, zero());
      }
    }
  }
}

template <typename Codes>
class FloatGroupProducts {
 public:
  FloatGroupProducts(const LinearArguments& a, const FloatStretch& s) : a_(a), s_(s) {}

  /// Multiplies the elements [begin, end) of the depth, which share a scale.
  void run(int64_t begin, int64_t end) {
    const int64_t group = begin / a_.group;
    begin_ = begin;
    elements_ = end - begin;
    group_ = group * (a_.group / Codes::kElements * kBytesOfCodes + kFloatScaleBytes);
    codes_ = group_ + (begin - group * a_.group) / Codes::kElements * kBytesOfCodes;
    if (s_.rows > kFloatFewRows) {
      multiply_rows();
    } else {
      for_numbers<1, kFloatFewRows + 1>([&](auto count) REPRISE_LAMBDA_INLINE {
        if (s_.rows == count.value) multiply_few_rows<count.value>();
      });
    }
    if (end == (group + 1) * a_.group) finish();
  }

 private:
  typename Codes::Table table_of(int64_t panel) const {
    return Codes::load_table(s_.panels[panel] + (a_.column_bytes - 4) * kPanelColumns);
  }
  const float* x() const { return s_.x + (begin_ - s_.first); }

  template <int kRows, int kPanels>
  REPRISE_INLINE void multiply_few_rows(int64_t panel) const {
    const uint8_t* codes[kPanels];
    typename Codes::Table tables[kPanels];
    for (int p = 0; p < kPanels; ++p) {
      codes[p] = s_.panels[panel + p] + codes_;
      tables[p] = table_of(panel + p);
    }
    add_few_float_rows<Codes, kRows, kPanels>(x(),
                                              codes,
                                              tables,
                                              elements_,
                                              s_.sums + panel * kPanelColumns,
                                              s_.num_panels * kPanelColumns);
  }
  template <int kRows>
  void multiply_few_rows() const {
    constexpr int kPanels = kRows == 1 ? kFloatRowPanels : kFloatTilePanels;
    int64_t p = 0;
    for (; p + kPanels <= s_.num_panels; p += kPanels) multiply_few_rows<kRows, kPanels>(p);
    for (; p < s_.num_panels; ++p) multiply_few_rows<kRows, 1>(p);
  }

  void decode(int64_t panel, float* to) const {
    const uint8_t* codes = s_.panels[panel] + codes_;
    const typename Codes::Table table = table_of(panel);
    for (int64_t i = 0; i < elements_; i += Codes::kElements, codes += kBytesOfCodes) {
      Panel::Floats weights[Codes::kElements];
      Codes::decode(codes, table, weights);
      __builtin_prefetch(codes + kFloatBytesAhead, 0, 2);
#pragma GCC unroll 8
      for (int e = 0; e < Codes::kElements; ++e) {
        Panel::store(to + (i + e) * kPanelColumns, weights[e]);
      }
    }
  }
  template <int kPanels>
  void multiply_rows(int64_t panel) const {
    alignas(64) float weights[kPanels * kFloatStretch * kPanelColumns];
    for (int p = 0; p < kPanels; ++p) {
      decode(panel + p, weights + p * kFloatStretch * kPanelColumns);
    }
    add_float_tiles<kPanels>(s_, x(), weights, elements_, s_.sums + panel * kPanelColumns);
  }
  void multiply_rows() const {
    int64_t p = 0;
    for (; p + kFloatTilePanels <= s_.num_panels; p += kFloatTilePanels) {
      multiply_rows<kFloatTilePanels>(p);
    }
    for (; p < s_.num_panels; ++p) multiply_rows<1>(p);
  }

  void finish() const { finish_float_group<Codes>(a_, s_, group_); }

  const LinearArguments& a_;
  const FloatStretch& s_;
  int64_t begin_ = 0;
  int64_t elements_ = 0;
  int64_t group_ = 0;  // offset of this group in a panel, in bytes
  int64_t codes_ = 0;  // the same for the group's element `begin`
};

/// This function is not inlined into its callers, which are many: there is one for every type of x
/// and every epilogue.
template <typename Codes>
__attribute__((noinline)) void multiply_float_stretch(const LinearArguments& a,
                                                      const FloatStretch& s) {
  FloatGroupProducts<Codes> products(a, s);
  for (int64_t begin = s.first; begin < s.last;) {
    const int64_t end = min_of(s.last, (begin / a.group + 1) * a.group);
    products.run(begin, end);
    begin = end;
  }
}

inline void multiply_float_stretch(const LinearArguments& a, const FloatStretch& s) {
  with_float_codes(a.codec, [&](auto codes) { multiply_float_stretch<decltype(codes)>(a, s); });
}

/// Calls `store_row(r, sums)` with the sums of each row; see linear_sums.
template <typename T, typename Columns, typename StoreRow>
inline void float_products(const LinearArguments& a,
                           const LinearBlock& block,
                           const Columns& columns,
                           const StoreRow& store_row) {
  alignas(64) float x[kFloatRows * kFloatStretch];
  alignas(64) float sums[kFloatRows * kMostLinearColumns];
  alignas(64) float totals[kFloatRows * kMostLinearColumns];
  const uint8_t* panels[kMostLinearColumns / kPanelColumns];
  FloatStretch s = {.x = x,
                    .rows = 0,
                    .panels = panels,
                    .num_panels = columns.size / kPanelColumns,
                    .first = 0,
                    .last = 0,
                    .sums = sums,
                    .totals = totals};
  for (int64_t p = 0; p < s.num_panels; ++p) {
    panels[p] = reinterpret_cast<const uint8_t*>(columns.weight[p * kPanelColumns]);
  }
  for (int64_t row = 0; row < block.rows; row += kFloatRows) {
    s.rows = min_of(kFloatRows, block.rows - row);
    const auto bytes = static_cast<size_t>(s.rows * columns.size) * sizeof(float);
    __builtin_memset(sums, 0, bytes);
    __builtin_memset(totals, 0, bytes);
    for (s.first = 0; s.first < a.depth; s.first = s.last) {
      s.last = min_of(s.first + kFloatStretch, a.depth);
      for (int64_t r = 0; r < s.rows; ++r) {
        const T* from = static_cast<const T*>(a.x) + (block.row + row + r) * a.x_stride + s.first;
        // The depth is a multiple of the vector length.
        for (int64_t i = 0; i < s.last - s.first; i += kLanes) {
          store(x + r * kFloatStretch + i, load(from + i));
        }
      }
      multiply_float_stretch(a, s);
    }
    for (int64_t r = 0; r < s.rows; ++r) store_row(row + r, totals + r * columns.size);
  }
}
