// Products of rows of bfloat16 with a weight in panels of smaller floats, on instruction sets that
// multiply bfloat16. Codes become bfloat16, one stretch of the depth at a time, and are then
// multiplied like a weight in bfloat16 panels. Float8 has no more bits than bfloat16; the numbers
// of a table of four bits are rounded. The sums of the stretches of a group are added, then scaled.
// So the order of a sum depends only on the depth, for one row and for many.

#ifdef REPRISE_ISA_HAS_TILES
// Decoded panels of a stretch stay in the first cache level. Longer stretches store fewer sums.
constexpr int64_t kBf16StretchElements = 512;
constexpr int64_t kBf16StretchPanels = 2;
#else
constexpr int64_t kBf16StretchElements = 256;
constexpr int64_t kBf16StretchPanels = 4;
#endif

/// Decoded panels, with the members that LinearColumns has.
struct Bf16Columns {
  // Addresses of the columns that begin a panel.
  const BFloat16* weight[kBf16StretchPanels * kPanelColumns];
  int64_t size = 0;
};

template <typename Codes>
inline void decode_to_bf16(const uint8_t* codes,
                           const typename Codes::Table& table,
                           int64_t elements,
                           BFloat16* to) {
  for (int64_t i = 0; i < elements; i += Codes::kElements, codes += kBytesOfCodes) {
    Panel::Floats weights[Codes::kElements];
    Codes::decode(codes, table, weights);
    __builtin_prefetch(codes + kFloatBytesAhead, 0, 2);
#pragma GCC unroll 8
    for (int e = 0; e < Codes::kElements; e += 2) {
      store_bf16_pairs(to + (i + e) * kPanelColumns, weights[e], weights[e + 1]);
    }
  }
}

/// Multiplies some rows and panels: `s.first` and `s.last` are the whole depth, `s.x` is not used.
template <typename Codes>
class Bf16StretchProducts {
 public:
  Bf16StretchProducts(const LinearArguments& a, const LinearBlock& block, const FloatStretch& s)
      : a_(a), block_(block), s_(s) {}

  void run(PanelProducts<BFloat16>& products) {
    for (int64_t begin = 0; begin < a_.depth;) {
      const int64_t group = begin / a_.group;
      const int64_t end = min_of(begin + kBf16StretchElements, (group + 1) * a_.group);
      const int64_t group_bytes =
          group * (a_.group / Codes::kElements * kBytesOfCodes + kFloatScaleBytes);
      const int64_t codes =
          group_bytes + (begin - group * a_.group) / Codes::kElements * kBytesOfCodes;
      for (int64_t p = 0; p < s_.num_panels; p += kBf16StretchPanels) {
        multiply(products, p, codes, begin, end - begin);
      }
      if (end == (group + 1) * a_.group) finish_float_group<Codes>(a_, s_, group_bytes);
      begin = end;
    }
  }

 private:
  void multiply(PanelProducts<BFloat16>& products,
                int64_t panel,
                int64_t codes,
                int64_t begin,
                int64_t elements) {
    const int64_t count = min_of(kBf16StretchPanels, s_.num_panels - panel);
    Bf16Columns columns;
    for (int64_t p = 0; p < count; ++p) {
      const uint8_t* from = s_.panels[panel + p];
      BFloat16* to = decoded_ + p * kBf16StretchElements * kPanelColumns;
      const auto table = Codes::load_bf16_table(from + (a_.column_bytes - 4) * kPanelColumns);
      decode_to_bf16<Codes>(from + codes, table, elements, to);
      for (int64_t c = 0; c < kPanelColumns; ++c) columns.weight[columns.size++] = to;
    }
    LinearArguments stretch = a_;
    stretch.x = static_cast<const BFloat16*>(a_.x) + begin;
    stretch.depth = elements;
    LinearBlock block = block_;
    block.columns = columns.size;
    block.is_last_use = false;  // decoded weights stay in a cache
    products.run(stretch, block, columns, [&](int64_t row, const float* sums) {
      float* to = s_.sums + (row * s_.num_panels + panel) * kPanelColumns;
      for (int64_t c = 0; c < columns.size; c += kLanes) {
        store(to + c, add(load(to + c), load(sums + c)));
      }
    });
  }

  const LinearArguments& a_;
  const LinearBlock& block_;
  const FloatStretch& s_;
  alignas(64) BFloat16 decoded_[kBf16StretchPanels * kBf16StretchElements * kPanelColumns];
};

/// This function is not inlined into its callers, which are many.
template <typename Codes>
__attribute__((noinline)) void multiply_in_bf16(const LinearArguments& a,
                                                const LinearBlock& block,
                                                const FloatStretch& s,
                                                PanelProducts<BFloat16>& products) {
  Bf16StretchProducts<Codes>(a, block, s).run(products);
}

/// Calls `store_row(r, sums)` with the sums of each row; see linear_sums.
template <typename Columns, typename StoreRow>
inline void float_products_in_bf16(const LinearArguments& a,
                                   const LinearBlock& block,
                                   const Columns& columns,
                                   PanelProducts<BFloat16>& products,
                                   const StoreRow& store_row) {
  alignas(64) float sums[kMostLinearRows * kMostLinearColumns];
  alignas(64) float totals[kMostLinearRows * kMostLinearColumns];
  const uint8_t* panels[kMostLinearColumns / kPanelColumns];
  const FloatStretch s = {.x = nullptr,
                          .rows = block.rows,
                          .panels = panels,
                          .num_panels = columns.size / kPanelColumns,
                          .first = 0,
                          .last = a.depth,
                          .sums = sums,
                          .totals = totals};
  for (int64_t p = 0; p < s.num_panels; ++p) {
    panels[p] = reinterpret_cast<const uint8_t*>(columns.weight[p * kPanelColumns]);
  }
  const auto bytes = static_cast<size_t>(block.rows * columns.size) * sizeof(float);
  __builtin_memset(sums, 0, bytes);
  __builtin_memset(totals, 0, bytes);
  with_float_codes(a.codec,
                   [&](auto codes) { multiply_in_bf16<decltype(codes)>(a, block, s, products); });
  for (int64_t r = 0; r < block.rows; ++r) store_row(r, totals + r * columns.size);
}
