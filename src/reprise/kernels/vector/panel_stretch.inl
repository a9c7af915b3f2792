// A batch is multiplied with a weight in panels one stretch of the depth at a time. The first rows
// read the stretch from memory, the others from a cache. Memory would be idle during the latter, so
// tiles prefetch the next stretch, line by line.

/// The beginnings of the next stretches, which a tile prefetches. With each line that the tile
/// multiplies, it prefetches one line of each of these stretches.
struct LinesAhead {
  const char* at[kMaxLinearTileColumns / kPanelColumns];
  int size = 0;
};

REPRISE_INLINE void ask_for_line(const LinesAhead& ahead, int64_t line) {
  for (int i = 0; i < ahead.size; ++i) __builtin_prefetch(ahead.at[i] + line * 64, 0, 2);
}

/// Lines [begin, end) of each panel. A line has 64 bytes: a few elements of all 16 outputs.
struct PanelStretch {
  int64_t begin;
  int64_t end;
  // The distance in bytes from this stretch to the next one: that of the same panel, or at the
  // panel's end the first one of a panel of the next block. 0: nothing is prefetched.
  int64_t bytes_ahead = 0;
  // The first of the panels that this group of rows prefetches. The other groups prefetch the
  // others.
  int64_t first_panel = 0;
  int64_t last_panel = 0;

  /// Returns the lines for the tile with outputs [column, column + size). `weight[c]` is the
  /// address at which column c begins.
  template <typename T>
  LinesAhead ahead(const T* const* weight, int64_t column, int64_t size) const {
    LinesAhead lines;
    const int64_t first = max_of(first_panel, ceil_div(column, kPanelColumns));
    const int64_t last = min_of(last_panel, ceil_div(column + size, kPanelColumns));
    for (int64_t p = first; p < last; ++p) {
      const auto* panel = reinterpret_cast<const char*>(weight[p * kPanelColumns]);
      lines.at[lines.size++] = panel + begin * 64 + bytes_ahead;
    }
    return lines;
  }
};
