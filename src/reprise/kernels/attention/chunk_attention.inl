// The loop over the chunks of a context, for attention with vectors. `Attention` derives from
// ChunkAttention<Attention, E> and has, for a cache whose elements are of type E:
//
//     ask_for_keys(lines)                                   the next keys that will be read
//     compute_scores(keys, begin, end)                      state.scores = queries x keys
//     begin_values(pointers, ahead, begin, end)             what all rows need of the values
//     update_rows(values, ahead, row, count, begin, end)    the softmax and the sums of some rows
//     state_                                                the scores of all rows
//
// `ahead` are the next values that will be read.
template <typename Attention, typename E>
class ChunkAttention {
 public:
  /// See attend_positions. The state of all rows has begun.
  void run(int64_t begin, int64_t end) {
    Pointers pointers = pointers_of_first_chunk(begin, end);
    for (int64_t chunk = begin / kChunk * kChunk; chunk < end; chunk += kChunk) {
      attend_to(pointers, chunk, begin, end);
    }
  }

 protected:
  using Pointers = ChunkPointers<E>;

  explicit ChunkAttention(const AttentionRows& rows)
      : rows_(rows), count_(rows.num_tokens * rows.num_heads) {}

  Pointers pointers_of_first_chunk(int64_t begin, int64_t end) const {
    const int64_t chunk = begin / kChunk * kChunk;
    return Pointers(rows_, chunk, begin_in(chunk, begin), end_in(chunk, end));
  }
  /// Adds the positions of a chunk that are in [begin, end). `pointers` are those of this chunk,
  /// and become those of the next one.
  REPRISE_INLINE void attend_to(Pointers& pointers, int64_t chunk, int64_t begin, int64_t end) {
    const bool is_last = chunk + kChunk >= end;
    Pointers next;
    attention().ask_for_keys({});
    if (!is_last) {
      const int count = end_in(chunk + kChunk, end);
      next = Pointers(rows_, chunk + kChunk, 0, count);
      attention().ask_for_keys(next.key_lines(count, rows_.a));
    }
    const auto& ahead = is_last ? pointers : next;
    attend_chunk(pointers, ahead.values, chunk, begin_in(chunk, begin), end_in(chunk, end));
    pointers = next;
  }

  const AttentionRows& rows_;
  int count_;  // rows

 private:
  Attention& attention() { return *static_cast<Attention*>(this); }
  static int begin_in(int64_t chunk, int64_t begin) {
    return static_cast<int>(max_of(0, begin - chunk));
  }
  static int end_in(int64_t chunk, int64_t end) {
    return static_cast<int>(min_of(kChunk, end - chunk));
  }

  void attend_chunk(
      const ChunkPointers<E>& pointers, const E* const* ahead, int64_t chunk, int begin, int end) {
    attention().compute_scores(pointers.keys, begin, end);
    attention().begin_values(pointers, ahead, begin, end);
    add_biases(attention().state_, rows_, chunk);
    // Tokens that see the same positions of this chunk are computed together: all tokens, except on
    // the diagonal and at the edge of the window.
    const auto begin_of = [&](int token) {
      return static_cast<int>(max_of(0, rows_.window_begin(token) - chunk));
    };
    const auto end_of = [&](int token) {
      return static_cast<int>(max_of(0, min_of(kChunk, rows_.context(token) - chunk)));
    };
    int token = 0;
    while (token < rows_.num_tokens) {
      const int first = begin_of(token);
      const int last = end_of(token);
      int next = token + 1;
      while (next < rows_.num_tokens && begin_of(next) == first && end_of(next) == last) ++next;
      if (first < last) {
        const int row = token * rows_.num_heads;
        attention().update_rows(
            pointers.values, ahead, row, next * rows_.num_heads - row, first, last);
      }
      token = next;
    }
  }
};
