// The rows and columns that a kernel multiplies together. The blocks of a launch are small, so that
// any number of workers can share them evenly. A worker has many neighbouring blocks. Tiles are
// faster with larger blocks, so kernels with tiles join the blocks of a worker.
#ifdef REPRISE_ISA_HAS_TILES
constexpr int64_t kMostLinearRows = 256;
constexpr int64_t kMostLinearColumns = 256;
#else
constexpr int64_t kMostLinearRows = kMaxLinearTileRows;
constexpr int64_t kMostLinearColumns = kMaxLinearTileColumns;
#endif

// The rows and columns of one block. Neighbouring blocks share their weight rows.
struct LinearBlock {
  int64_t row;
  int64_t rows;  // may be 0
  int64_t column;
  int64_t columns;
  // true: no further rows use these weights, so the weights that follow are read from memory.
  bool is_last_use = false;
};

inline LinearBlock linear_block(const LinearArguments& a, uint32_t block) {
  const int64_t limit = a.num_rows == nullptr ? a.rows : min_of(a.rows, *a.num_rows);
  const int64_t row_tiles = ceil_div(a.rows, a.rows_per_block);
  const int64_t column = block / row_tiles * a.columns_per_block;
  const int64_t row = block % row_tiles * a.rows_per_block;
  return {row,
          max_of(0, min_of(a.rows_per_block, limit - row)),
          column,
          min_of(a.columns_per_block, a.columns - column)};
}

/// The blocks of one worker, joined as far as its instruction set gains from it and the limits
/// allow: while (blocks.next()) use(blocks.now()).
class LinearBlocks {
 public:
  LinearBlocks(const LinearArguments& a, device::BlockRange range, int64_t most_columns)
      : a_(a),
        next_(range.begin),
        end_(range.end),
        limit_(a.num_rows == nullptr ? a.rows : min_of(a.rows, *a.num_rows)),
        row_tiles_(ceil_div(a.rows, a.rows_per_block)),
        most_rows_(is_in_panels(a) ? kMostLinearRows : a.rows_per_block),
        most_tiles_(is_in_panels(a) ? max_of(1, most_columns / a.columns_per_block) : 1) {}

  [[nodiscard]] const LinearBlock& now() const { return now_; }

  bool next() {
    if (row_ >= last_row_ && !begin_columns()) return false;
    now_.row = row_;
    now_.rows = max_of(0, min_of(min_of(most_rows_, last_row_ - row_), limit_ - row_));
    now_.is_last_use = now_.row + now_.rows >= limit_;
    row_ += most_rows_;
    return true;
  }

 private:
  /// Takes whole columns of blocks, or the rest of one column.
  bool begin_columns() {
    if (next_ >= end_) return false;
    const int64_t first = next_ % row_tiles_;
    const int64_t left = end_ - next_;
    const bool is_whole = first == 0 && left >= row_tiles_;
    const int64_t tiles = is_whole ? min_of(left / row_tiles_, most_tiles_) : 1;
    const int64_t last = is_whole ? row_tiles_ : min_of(row_tiles_, first + left);
    now_.column = next_ / row_tiles_ * a_.columns_per_block;
    now_.columns = min_of(tiles * a_.columns_per_block, a_.columns - now_.column);
    row_ = first * a_.rows_per_block;
    last_row_ = last * a_.rows_per_block;
    next_ += is_whole ? tiles * row_tiles_ : last - first;
    return true;
  }

  const LinearArguments& a_;
  int64_t next_;
  int64_t end_;
  int64_t limit_;
  int64_t row_tiles_;
  int64_t most_rows_;
  int64_t most_tiles_;  // blocks side by side
  int64_t row_ = 0;
  int64_t last_row_ = 0;
  LinearBlock now_ = {};
};
