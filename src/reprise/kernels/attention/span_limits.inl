/// The positions [first, last) of a span of chunks that each row sees, as numbers of vector lanes.
struct SpanLimits {
  alignas(64) float first[kMostRows];
  alignas(64) float last[kMostRows];

  /// Rows up to `padded` repeat the last row. No row sees a position outside of [begin, end).
  void find(const AttentionRows& rows, int64_t span, int begin, int end, int padded) {
    int row = 0;
    for (int token = 0; token < rows.num_tokens; ++token) {
      const auto from = static_cast<float>(max_of(begin, rows.window_begin(token) - span));
      const auto to = static_cast<float>(max_of(0, min_of(end, rows.context(token) - span)));
      for (int head = 0; head < rows.num_heads; ++head, ++row) {
        first[row] = from;
        last[row] = to;
      }
    }
    for (; row < padded; ++row) {
      first[row] = first[row - 1];
      last[row] = last[row - 1];
    }
  }
};

/// The limits of the rows of a vector in one chunk of the span.
struct ChunkLimits {
  alignas(64) float first[kLanes];
  alignas(64) float last[kLanes];

  ChunkLimits(const SpanLimits& limits, int row, int chunk) {
    const Vec start = broadcast(static_cast<float>(chunk * kChunk));
    store(first, sub(load(limits.first + row), start));
    store(last, sub(load(limits.last + row), start));
  }
  /// Both limits grow from row to row.
  bool contain(int begin, int end) const { return first[kLanes - 1] <= begin && last[0] >= end; }
};
