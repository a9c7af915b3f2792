#pragma once

#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/cuda/packed_arguments.h"

// The copies of a warp of a product with a weight in panels to shared memory. A Form says
// how weights and rows lie in memory and how they are multiplied (block_form.cuh is the first):
//
//   kChunk, kPieceBytes  what is copied at once, and the bytes of one copy of a row's chunk
//   Panel                sixteen columns: `bytes` (nullptr: none), `columns`, `column`
//   Table                what the lanes of a warp compute once for each panel: table(panel)
//   Sum                  float or int32_t
//   num_panels(), panel(index)
//   chunk(panel, index)  where the bytes of a chunk of a panel are
//   multiply(sums, panel, table, weights, rows, chunk)
//   row_factor(row), finish(sum, panel, factor)  the product for a sum of column lane % 16
//   depth, x, row_bytes (of a row of x), row_step (from one row to the next)
//
// For bulk copies, which bring a stretch of neighbouring chunks, a Form has also
//
//   kStretchChunks         how many chunks are copied at once, a multiple of kLinearWarps
//   kIsOneStretch          whether they are one stretch of memory
//   kHasPairs              whether up to four rows take fewer instructions by PairedRowPlaces
//   kExpertParts           how many panels of an expert share the copies of their rows
//   stretch(panel, chunk)  that begins with a chunk; or stretch_bytes() and copy_stretch()
//   most_stretch_bytes()
//   multiply_in_stretch(sums, panel, table, stretch, rows, place, chunk)
//
// with the sums of multiply(), for the chunk that is in this place of its stretch. For rows that a
// block quantises itself (own_rows.cuh), a Form has also
//
//   quantize(rows, limit, memory)  writes rows to shared memory, by all warps that multiply
//   use_scales(scales)             of these rows; row_factor() then reads them
namespace reprise::kernels::cuda {

/// A chunk of rows of x in shared memory.
template <int kStride>
struct ChunkRowPlaces {
  static constexpr bool kAreFirst = false;
  const char* first;

  [[nodiscard]] REPRISE_DEVICE const char* row(int index) const { return first + index * kStride; }
};
/// The same, of up to eight rows. Other rows have the place of the last one: their sums are not
/// used.
template <int kStride>
struct FewRowPlaces {
  static constexpr bool kAreFirst = false;
  const char* first;
  int last;

  [[nodiscard]] REPRISE_DEVICE const char* row(int index) const {
    return first + (index < last ? index : last) * kStride;
  }
};
/// The same, of up to four rows, each of which is two neighbouring rows of a fragment. A lane has
/// the sums of two neighbours, and only those of the first one need to be computed.
template <int kStride>
struct PairedRowPlaces {
  static constexpr bool kAreFirst = true;
  const char* first;
  int last;

  [[nodiscard]] REPRISE_DEVICE const char* row(int index) const {
    return first + (index / 2 < last ? index / 2 : last) * kStride;
  }
};

/// Up to eight rows, of which a block has the whole depth in shared memory: FewRowPlaces, or with
/// kIsPaired PairedRowPlaces.
template <bool kIsPaired>
struct WholeRowPlaces {
  static constexpr bool kAreFirst = kIsPaired;
  const char* first;
  int last;
  int stride;

  [[nodiscard]] REPRISE_DEVICE const char* row(int index) const {
    const int place = kIsPaired ? index / 2 : index;
    return first + (place < last ? place : last) * stride;
  }
};

/// Chunks of a panel that are one stretch of memory.
struct StretchBytes {
  const char* from;
  int bytes;  // a positive multiple of 16
};

/// A chunk of a panel: `first` bytes, and others that lie `skipped` bytes further away.
struct ChunkBytes {
  const char* from;
  int first;
  int64_t skipped;
  int bytes;  // of both
};

/// Starts the copies of a chunk, by all lanes of a warp.
REPRISE_DEVICE void copy_chunk_async(char* to, const ChunkBytes& chunk) {
  for (int i = lane_index() * 16; i < chunk.bytes; i += kWarpSize * 16) {
    copy_words_async(to + i, chunk.from + i + (i < chunk.first ? 0 : chunk.skipped), true);
  }
}

/// Starts the copies of a chunk of `rows` rows of x, at most kWarpSize, by all lanes of a warp.
/// Lane r has the index of row r. An index below 0 means that there is no such row: its copy is
/// zeros.
template <typename Form>
REPRISE_DEVICE void copy_rows_async(
    const Form& form, char* to, int rows, int row_of_lane, int chunk) {
  constexpr ChunkSizes kChunk = Form::kChunk;
  constexpr int kPieces = kChunk.row_bytes / Form::kPieceBytes;
  for (int first = 0; first < rows * kPieces; first += kWarpSize) {
    const int i = first + lane_index();
    const int row = i / kPieces;
    const int piece = i % kPieces * Form::kPieceBytes;
    const int64_t x_row = shuffle_from(row_of_lane, row % kWarpSize);
    if (row >= rows) continue;
    const int64_t at = int64_t{chunk} * kChunk.row_bytes + piece;
    const bool there = x_row >= 0 && at < form.row_bytes;
    const char* from = form.x + (there ? x_row * form.row_step + at : 0);
    if constexpr (Form::kPieceBytes == 16) {
      copy_words_async(to + row * kChunk.row_stride + piece, from, there);
    } else {
      copy_pair_async(to + row * kChunk.row_stride + piece, from, there);
    }
  }
}

/// Starts the bulk copies of a stretch, by all lanes of a warp together.
template <typename Form>
REPRISE_DEVICE void copy_stretch(const Form& form,
                                 char* to,
                                 const typename Form::Panel& panel,
                                 int chunk,
                                 PhaseBarrier& barrier) {
  if constexpr (Form::kIsOneStretch) {
    const StretchBytes stretch = form.stretch(panel, chunk);
    copy_bulk(to, stretch.from, stretch.bytes, barrier);
  } else {
    form.copy_stretch(to, panel, chunk, barrier);
  }
}
template <typename Form>
REPRISE_DEVICE int stretch_bytes(const Form& form, const typename Form::Panel& panel, int chunk) {
  if constexpr (Form::kIsOneStretch) {
    return form.stretch(panel, chunk).bytes;
  } else {
    return form.stretch_bytes(panel, chunk);
  }
}

/// The work of a product: an item is the same panel (or pair of panels) and up to kRows rows.
/// Neighbouring items share their panels.
template <int kRows>
struct ProductItems {
  int64_t rows;
  int64_t limit = 0;  // rows from this one on are not computed
  int64_t row_tiles;
  int64_t panels;  // of each part
  int64_t count;

  /// `parts`: the panels that an item needs.
  REPRISE_DEVICE ProductItems(const LinearArguments& a, int64_t num_panels, int parts)
      : rows(a.rows),
        row_tiles(ceil_div(a.rows, kRows)),
        panels(num_panels / parts),
        count(panels * row_tiles) {}
  /// The panel of an item's part, or -1: its rows are zeros.
  [[nodiscard]] REPRISE_DEVICE int64_t panel(int64_t item, int part) const {
    return item / row_tiles + part * panels;
  }
  /// The rows of x and of the result of an item's row; -1: there is none.
  [[nodiscard]] REPRISE_DEVICE int64_t x_row(int64_t item, int row) const {
    return out_row(item, row);
  }
  [[nodiscard]] REPRISE_DEVICE int64_t out_row(int64_t item, int row) const {
    const int64_t index = item % row_tiles * kRows + row;
    return row < kRows && index < limit ? index : -1;
  }
  [[nodiscard]] REPRISE_DEVICE int rows_of(int64_t item) const {
    return static_cast<int>(min_of(kRows, limit - item % row_tiles * kRows));
  }
  /// How many rows of an item may exist.
  [[nodiscard]] REPRISE_DEVICE int most_rows() const {
    return row_tiles == 1 ? static_cast<int>(limit) : kRows;
  }
};

/// The position of a warp's next copy: a chunk of the depth of an item of its block. Warp w has the
/// chunks w, w + kLinearWarps, ..., so the order of a sum depends only on the depth.
template <typename Form, int kParts, typename Items>
class PackedCursor {
 public:
  REPRISE_DEVICE PackedCursor(const Form& form, const Items& items)
      : form_(form), items_(items), item_(block_index()), chunk_(warp_index()) {
    if (chunk_ >= num_chunks()) item_ = items_.count;
    find_panels();
  }
  [[nodiscard]] REPRISE_DEVICE int num_chunks() const {
    return (form_.depth + Form::kChunk.elements - 1) / Form::kChunk.elements;
  }
  REPRISE_DEVICE void next() {
    if (item_ >= items_.count) return;
    chunk_ += kLinearWarps;
    if (chunk_ < num_chunks()) return;
    chunk_ = warp_index();
    item_ += grid_size();
    find_panels();
    find_rows();
  }
  /// Must be called before the first copy_rows(), when the rows are known.
  REPRISE_DEVICE void find_rows() {
    if (item_ < items_.count) row_ = static_cast<int>(items_.x_row(item_, lane_index()));
  }
  /// Starts the copies of the item's panels.
  REPRISE_DEVICE void copy_weights(char* slot) const {
    if (item_ >= items_.count) return;
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      if (panels_[part].bytes == nullptr) continue;
      form_.copy(slot + part * Form::kChunk.weight_bytes, panels_[part], chunk_);
    }
  }
  /// Starts the copies of `rows` rows of the item, at most kWarpSize.
  REPRISE_DEVICE void copy_rows(char* slot, int rows) const {
    if (item_ >= items_.count) return;
    copy_rows_async(form_, slot + kParts * Form::kChunk.weight_bytes, rows, row_, chunk_);
  }

 private:
  REPRISE_DEVICE void find_panels() {
    if (item_ >= items_.count) return;
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const int64_t index = items_.panel(item_, part);
      panels_[part].bytes = nullptr;
      if (index >= 0) panels_[part] = form_.panel(index);
    }
  }

  const Form& form_;
  const Items& items_;
  int64_t item_;
  int chunk_;
  int row_ = -1;  // the row of x of the item's row with the number of the lane
  typename Form::Panel panels_[kParts];
};

}  // namespace reprise::kernels::cuda
