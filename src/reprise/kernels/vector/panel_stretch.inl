// A weight in panels is multiplied a stretch of its depth at a time, so that the stretch stays in a
// cache while all rows meet it. Meanwhile the processor fetches the next stretch: decoding a few
// rows is as fast as memory, and decoding many is not slowed down by it.

/// Addresses whose lines are read next, one of each for every line that a tile multiplies.
struct LinesAhead {
  const char* at[kMaxLinearTileColumns / kPanelColumns];
  int size = 0;
};

REPRISE_INLINE void ask_for_line(const LinesAhead& ahead, int64_t line) {
  for (int i = 0; i < ahead.size; ++i) __builtin_prefetch(ahead.at[i] + line * 64, 0, 2);
}

/// Lines [begin, end) of each panel. A line has all outputs of a panel with a few elements of x.
struct PanelStretch {
  int64_t begin;
  int64_t end;
  // The bytes from a stretch of a panel to what is read after it: the next stretch of the panel, or
  // the first one of a panel in the next block. 0: it is not in memory, and nothing is asked for.
  int64_t bytes_ahead = 0;
  // The panels that this group of rows asks for; the other groups ask for the others.
  int64_t first_panel = 0;
  int64_t last_panel = 0;

  /// For the tile with outputs [column, column + size). `weight[c]` is where column c begins.
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
