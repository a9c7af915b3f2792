#pragma once

#include "reprise/kernels/cuda/packed_stream.cuh"

// Weights of bfloat16 or float16 in rows, sixteen of which are a panel. The products of experts use
// this form; other products have kernels of their own (linear_kernels.cuh).
namespace reprise::kernels::cuda {

/// Sixteen rows of a weight, or fewer: the last ones of an expert.
struct RowPanel {
  const char* bytes;
  int columns;
};

template <typename T>
struct RowForm {
  static constexpr ChunkSizes kChunk = kRowChunk;
  static constexpr int kPieceBytes = 16;
  static constexpr int kStretchChunks = kLinearWarps;
  static constexpr bool kIsOneStretch = false;  // each row of the weight is one
  static constexpr bool kHasPairs = false;
  static constexpr int kExpertParts = 1;
  using Panel = RowPanel;
  struct Table {};
  using Sum = float;

  const void* weight;
  const char* x;
  int depth;
  int64_t row_bytes;
  int64_t row_step;
  int columns;  // of an expert
  int panels_per_expert;

  REPRISE_DEVICE explicit RowForm(const PackedLinearArguments& arguments)
      : weight(arguments.of.product.weight),
        x(static_cast<const char*>(arguments.of.product.x)),
        depth(static_cast<int>(arguments.of.product.depth)),
        row_bytes(arguments.of.product.depth * static_cast<int>(sizeof(T))),
        row_step(arguments.of.product.x_stride * static_cast<int>(sizeof(T))),
        columns(static_cast<int>(arguments.of.product.columns)),
        panels_per_expert(static_cast<int>(ceil_div(columns, kPanelColumns))) {}
  [[nodiscard]] REPRISE_DEVICE Panel panel(int64_t index) const {
    const int64_t expert = index / panels_per_expert;
    const int first = static_cast<int>((index - expert * panels_per_expert) * kPanelColumns);
    return {.bytes = static_cast<const char*>(weight) + (expert * columns + first) * row_bytes,
            .columns = static_cast<int>(min_of(kPanelColumns, columns - first))};
  }
  [[nodiscard]] static REPRISE_DEVICE Table table(const Panel& /*panel*/) { return {}; }
  /// Row r of a fragment is column 2r, and row 8 + r is column 2r + 1. What lies beyond the columns
  /// and the depth is zeros.
  REPRISE_DEVICE void copy(char* to, const Panel& panel, int chunk) const {
    constexpr int kPieces = kChunk.row_bytes / kPieceBytes;
    const int64_t begin = int64_t{chunk} * kChunk.row_bytes;
    REPRISE_UNROLL
    for (int i = lane_index(); i < kPanelColumns * kPieces; i += kWarpSize) {
      const int column = i / kPieces;
      const int piece = i % kPieces * kPieceBytes;
      const bool there = column < panel.columns && begin + piece < row_bytes;
      copy_words_async(to + (column % 2 * 8 + column / 2) * kChunk.row_stride + piece,
                       panel.bytes + (there ? column * row_bytes + begin + piece : 0),
                       there);
    }
  }
  /// A stretch is copied row by row, in the order of copy(). Rows that are not there hold anything:
  /// their sums are not used. \pre the depth is a multiple of 32
  [[nodiscard]] static REPRISE_DEVICE int most_stretch_bytes() {
    return static_cast<int>(kPanelColumns) * kStretchStride;
  }
  [[nodiscard]] REPRISE_DEVICE int stretch_bytes(const Panel& panel, int chunk) const {
    return panel.columns * row_bytes_from(chunk);
  }
  REPRISE_DEVICE void copy_stretch(char* to,
                                   const Panel& panel,
                                   int chunk,
                                   PhaseBarrier& barrier) const {
    const char* from = panel.bytes + int64_t{chunk} * kChunk.row_bytes;
    const int bytes = row_bytes_from(chunk);
    for (int column = 0; column < panel.columns; ++column) {
      copy_bulk(to + (column % 2 * 8 + column / 2) * kStretchStride, from, bytes, barrier);
      from += row_bytes;
    }
  }
  template <typename Rows>
  REPRISE_DEVICE void multiply_in_stretch(float (&sums)[1][4],
                                          const Panel& /*panel*/,
                                          Table /*table*/,
                                          const char* stretch,
                                          const Rows& rows,
                                          int place,
                                          int chunk) const {
    multiply_rows<kStretchStride>(sums, stretch + place * kChunk.row_bytes, rows, chunk);
  }
  template <int kTiles, typename Rows>
  REPRISE_DEVICE void multiply(float (&sums)[kTiles][4],
                               const Panel& /*panel*/,
                               Table /*table*/,
                               const char* weights,
                               const Rows& rows,
                               int chunk) const {
    multiply_rows<kChunk.row_stride>(sums, weights, rows, chunk);
  }
  [[nodiscard]] static REPRISE_DEVICE float row_factor(int64_t /*row*/) { return 1; }
  [[nodiscard]] static REPRISE_DEVICE float finish(float sum, const Panel&, float /*factor*/) {
    return sum;
  }

 private:
  static constexpr int kStretchStride = kStretchChunks * kChunk.row_bytes + kChunk.row_stride % 128;
  [[nodiscard]] REPRISE_DEVICE int row_bytes_from(int chunk) const {
    return static_cast<int>(
        min_of(kStretchChunks * kChunk.row_bytes, row_bytes - int64_t{chunk} * kChunk.row_bytes));
  }
  /// `kStride`: from one row of the weight to the next.
  template <int kStride, int kTiles, typename Rows>
  REPRISE_DEVICE void multiply_rows(float (&sums)[kTiles][4],
                                    const char* weights,
                                    const Rows& rows,
                                    int chunk) const {
    constexpr int kStep = 32;  // elements: the depth of a load of a fragment of rows
    const int left = depth - chunk * kChunk.elements;
    const int lane = lane_index();
    REPRISE_UNROLL
    for (int step = 0; step < kChunk.elements / kStep; ++step) {
      if (step * kStep >= left) break;
      uint32_t words[kTiles][4];
      REPRISE_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        load_fragments(words[t],
                       shared_address(rows.row(t * kFragmentRows + lane % 8) + step * kStep * 2 +
                                      lane / 8 * 16));
      }
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        uint32_t columns_of[4];
        load_fragments(columns_of,
                       shared_address(weights + lane % 16 * kStride + step * kStep * 2 + half * 32 +
                                      lane / 16 * 16));
        REPRISE_UNROLL
        for (int t = 0; t < kTiles; ++t) {
          multiply_fragments<T>(sums[t], columns_of, {words[t][2 * half], words[t][2 * half + 1]});
        }
      }
    }
  }
};

}  // namespace reprise::kernels::cuda
