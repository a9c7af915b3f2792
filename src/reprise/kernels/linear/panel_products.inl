// Products of bfloat16 or int8 rows with a weight in panels, with the instructions of each
// instruction set. A kernel makes one object for all its blocks.

/// The sums of products of T.
template <typename T>
struct SumOfPanelsTrait {
  using Type = float;
};
template <>
struct SumOfPanelsTrait<int8_t> {
  using Type = int32_t;
};
template <typename T>
using SumOfPanels = typename SumOfPanelsTrait<T>::Type;

/// The type of the elements of widened rows.
template <typename T>
struct WideElementTrait {
  using Type = float;
};
template <>
struct WideElementTrait<int8_t> {
  using Type = int16_t;
};
template <typename T>
using WideElement = typename WideElementTrait<T>::Type;

/// The input of a kernel's epilogue: the sums of a row with 16 outputs, whose panel is `panel`.
template <typename T>
REPRISE_INLINE void finish_sums(
    const float* sums, const LinearArguments&, int64_t, const T*, float* out) {
  for (int64_t c = 0; c < kPanelColumns; c += kLanes) store(out + c, load(sums + c));
}
/// Scales the sums of int8: (sum * scale of the row) * scale of the output.
REPRISE_INLINE void finish_sums(
    const int32_t* sums, const LinearArguments& a, int64_t row, const int8_t* panel, float* out) {
  const auto* tail = reinterpret_cast<const uint8_t*>(panel + a.depth * kPanelColumns);
  const float scale = a.x_scale[row * a.x_scale_stride];
  Panel::store(out, Panel::scaled(Panel::load_sums(sums), scale, Panel::load_f32(tail)));
}

#ifdef REPRISE_ISA_HAS_TILES
#include "reprise/kernels/linear/tile_products.inl"
template <typename T>
using PanelProducts = TileProducts<T>;
#else
// If there are several groups of rows, each multiplies the depth in stretches of at most this many
// lines. While the groups multiply one stretch, each of them prefetches its share of the next one.
// A single group of bfloat16 rows, or of few int8 rows, reads at the speed of memory without this.
constexpr int64_t kStretchLines = 256;
constexpr int64_t kFewestAskingInt8Rows = 4;
// A few groups of int8 rows multiply at the speed of memory. Their stretches of four panels stay in
// the first cache level, so reading them again does not wait behind the lines that memory sends.
constexpr int64_t kShortStretchLines = 64;
constexpr int64_t kFewGroups = 3;

template <typename T>
struct PanelProducts {
  static constexpr int64_t kMostRows = __is_same(T, int8_t) ? kPanelTileRows : kPairTileRows;

  /// Calls `store_row(r, sums)` with the sums of each row; see linear_sums.
  template <typename Columns, typename StoreRow>
  void run(const LinearArguments& a,
           const LinearBlock& block,
           const Columns& columns,
           const StoreRow& store_row) {
    const int64_t groups = ceil_div(block.rows, kMostRows);
    const int64_t panels = columns.size / kPanelColumns;
    const bool asks = (groups > 1 || asks_alone(block.rows)) && block.is_last_use;
    const int64_t lines = a.depth / kElementsOfLine;
    const int64_t at_once = asks || widens(block.rows) ? stretch_lines(lines, groups) : lines;
    const int64_t rows_of_group = groups == 0 ? 0 : ceil_div(block.rows, groups);
    for (int64_t begin = 0; begin < lines; begin += at_once) {
      PanelStretch stretch = {.begin = begin, .end = min_of(begin + at_once, lines)};
      if (asks) stretch.bytes_ahead = bytes_ahead(a.depth, columns, stretch, lines);
      for (int64_t g = 0; g < groups; ++g) {
        stretch.first_panel = g * panels / groups;
        stretch.last_panel = (g + 1) * panels / groups;
        const int64_t row = g * rows_of_group;
        multiply(a, block, row, min_of(rows_of_group, block.rows - row), columns, stretch);
      }
    }
    finish(a, block, columns, store_row);
  }

 private:
  static constexpr int64_t kElementsOfLine = 64 / static_cast<int64_t>(sizeof(T)) / kPanelColumns;
  // Several rows are multiplied as float32, or int8 rows as 16 bits, from a copy of the stretch
  // that is in use.
  static constexpr bool kIsInt8 = __is_same(T, int8_t);
  static constexpr bool kWidens = kIsInt8 ? kPanelWidensRows : kPairsAreFloats;
  using Wide = WideElement<T>;
  static constexpr int64_t kWidest = kStretchLines * kElementsOfLine;

  /// Fewer int8 rows multiply at the speed of memory, in one stretch, without it.
  static bool widens(int64_t rows) {
    return kWidens && rows >= (kIsInt8 ? kFewestAskingInt8Rows : 2);
  }
  static bool asks_alone(int64_t rows) {
    return __is_same(T, int8_t) && rows >= kFewestAskingInt8Rows;
  }

  /// The lines of a stretch. All stretches have nearly the same length, because each asks for as
  /// many lines as it has.
  static int64_t stretch_lines(int64_t lines, int64_t groups) {
    const bool is_short = __is_same(T, int8_t) && groups <= kFewGroups;
    const int64_t most = is_short ? kShortStretchLines : kStretchLines;
    return ceil_div(lines, max_of(1, ceil_div(lines, most)));
  }

  /// The distance from a stretch to the stretch that is read after it.
  template <typename Columns>
  static int64_t bytes_ahead(int64_t depth,
                             const Columns& columns,
                             const PanelStretch& stretch,
                             int64_t lines) {
    if (stretch.end < lines) return (stretch.end - stretch.begin) * 64;
    // The next block has the same number of panels of each range of outputs.
    const int64_t panel_elements = weight_row_elements<T>(depth) * kPanelColumns;
    int64_t panels = 1;
    while (panels * kPanelColumns < columns.size &&
           columns.weight[panels * kPanelColumns] == columns.weight[0] + panels * panel_elements) {
      ++panels;
    }
    return panels * panel_elements * static_cast<int64_t>(sizeof(T)) - stretch.begin * 64;
  }

  template <typename Columns>
  void multiply(const LinearArguments& a,
                const LinearBlock& block,
                int64_t row,
                int64_t rows,
                const Columns& columns,
                const PanelStretch& stretch) {
    const T* x[kMostRows];
    for (int64_t r = 0; r < rows; ++r) {
      x[r] = static_cast<const T*>(a.x) + (block.row + row + r) * a.x_stride;
    }
    SumOfPanels<T>* sums = sums_ + row * columns.size;
    const auto run = [&](const auto* const* of_rows) {
      if (stretch.bytes_ahead != 0) {
        products<true>(of_rows, rows, columns, a.depth, stretch, sums);
      } else {
        products<false>(of_rows, rows, columns, a.depth, stretch, sums);
      }
    };
    if constexpr (kWidens) {
      if (widens(block.rows)) {
        const Wide* wide[kMostRows];
        for (int64_t r = 0; r < rows; ++r) wide[r] = widen(x[r], stretch, wide_ + r * kWidest);
        return run(wide);
      }
    }
    run(x);
  }

  /// The elements of a row in a stretch, widened.
  template <typename P = Panel>
  static const Wide* widen(const T* x, const PanelStretch& stretch, Wide* to) {
    const int64_t begin = stretch.begin * kElementsOfLine;
    const int64_t count = stretch.end * kElementsOfLine - begin;
    if constexpr (kIsInt8) {
      P::widen_bytes(x + begin, count, to);
    } else {
      for (int64_t i = 0; i < count; i += kLanes) {
        const int lanes = lanes_at(i, count);
        store_some(to + i, load_some(x + begin + i, lanes), lanes);
      }
    }
    return to;
  }

  template <bool kAsks, typename X, typename Columns>
  static void products(const X* const* x,
                       int64_t rows,
                       const Columns& columns,
                       int64_t depth,
                       const PanelStretch& stretch,
                       SumOfPanels<T>* sums) {
    if constexpr (__is_same(T, int8_t)) {
      four_products<kAsks>(x, rows, columns, depth, stretch, sums);
    } else {
      pair_products<kAsks>(x, rows, columns, stretch, sums);
    }
  }

  template <typename Columns, typename StoreRow>
  void finish(const LinearArguments& a,
              const LinearBlock& block,
              const Columns& columns,
              const StoreRow& store_row) {
    float finished[kMostLinearColumns];
    for (int64_t r = 0; r < block.rows; ++r) {
      const SumOfPanels<T>* sums = sums_ + r * columns.size;
      for (int64_t c = 0; c < columns.size; c += kPanelColumns) {
        finish_sums(sums + c, a, block.row + r, columns.weight[c], finished + c);
      }
      store_row(r, finished);
    }
  }

  alignas(64) SumOfPanels<T> sums_[kMostLinearRows * kMostLinearColumns];
  alignas(64) Wide wide_[kWidens ? kMostRows * kWidest : 1];
};
#endif
