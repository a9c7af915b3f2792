// A batch meets a weight in panels a stretch of the depth at a time. The stretch comes from memory
// for the first rows and from a cache for the others. While they multiply it, memory would be idle:
// so tiles ask for the next stretch, line by line.

/// Where the next stretches begin that a tile asks for. With each line that it multiplies, it asks
/// for one line of each of them.
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
  // How many bytes behind this stretch the next one is: that of the same panel, or at its end the
  // first one of a panel of the next block. 0: nothing is asked for.
  int64_t bytes_ahead = 0;
  // The panels that this group of rows asks for. The other groups ask for the others.
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
