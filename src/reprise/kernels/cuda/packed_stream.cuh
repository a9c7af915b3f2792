#pragma once

#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/cuda/packed_arguments.h"
#include "reprise/kernels/cuda/packed_codes.cuh"

// What a warp of a product with a packed weight copies to shared memory, and when.
namespace reprise::kernels::cuda {

/// The work of a product: an item is the same panel (or pair of panels) and up to kRows rows.
/// Neighbouring items share their panels.
template <int kRows>
struct ProductItems {
  const PackedLinearArguments& a;
  int parts;          // panels that an item needs
  int64_t limit = 0;  // rows from this one on are not computed
  int64_t row_tiles = 1;
  int64_t panels = 0;
  int64_t count = 0;

  REPRISE_DEVICE ProductItems(const PackedLinearArguments& arguments, int parts_of_item)
      : a(arguments), parts(parts_of_item) {
    row_tiles = ceil_div(a.of.product.rows, kRows);
    panels = static_cast<const PanelHeader*>(a.of.product.weight)->panels / parts;
    count = panels * row_tiles;
  }
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
    return index < limit ? index : -1;
  }
  /// How many rows of an item may exist.
  [[nodiscard]] REPRISE_DEVICE int most_rows() const {
    return row_tiles == 1 ? static_cast<int>(limit) : kRows;
  }
};

/// The work of a product of experts: an item is a row and a panel of its expert.
struct ExpertItems {
  const PackedExpertArguments& a;
  int64_t panels = 0;  // of an expert
  int64_t count = 0;

  REPRISE_DEVICE explicit ExpertItems(const PackedExpertArguments& arguments) : a(arguments) {
    panels = a.linear.of.product.columns / kPanelColumns;
    count = panels * a.linear.of.product.rows;
  }
  [[nodiscard]] REPRISE_DEVICE int64_t expert(int64_t item) const {
    return a.experts[item / panels];
  }
  [[nodiscard]] REPRISE_DEVICE int64_t panel(int64_t item, int) const {
    const int64_t chosen = expert(item);
    return chosen < 0 ? -1 : chosen * panels + item % panels;
  }
  [[nodiscard]] REPRISE_DEVICE int64_t x_row(int64_t item, int row) const {
    return row == 0 ? item / panels / a.rows_per_x : -1;
  }
  [[nodiscard]] REPRISE_DEVICE int64_t out_row(int64_t item, int row) const {
    return row == 0 ? item / panels : -1;
  }
  [[nodiscard]] REPRISE_DEVICE static int most_rows() { return 1; }
};

/// The position of a warp's next copy: a chunk of the depth of an item of its block. Warp w has the
/// chunks w, w + kLinearWarps, ..., so the order of a sum depends only on the depth.
template <int kTiles, int kParts, typename Items>
class PackedCursor {
 public:
  REPRISE_DEVICE PackedCursor(const Items& items, const LinearArguments& a)
      : items_(items),
        weight_(a.weight),
        x_(static_cast<const char*>(a.x)),
        blocks_(static_cast<int>(a.depth / kPanelBlock)),
        item_(block_index()),
        chunk_(warp_index()) {
    if (chunk_ >= num_chunks()) item_ = items_.count;
    find_panels();
  }
  [[nodiscard]] REPRISE_DEVICE int num_chunks() const {
    return (blocks_ + kPackedChunkBlocks - 1) / kPackedChunkBlocks;
  }
  REPRISE_DEVICE void next() {
    if (item_ >= items_.count) return;
    chunk_ += kLinearWarps;
    if (chunk_ < num_chunks()) return;
    chunk_ = warp_index();
    item_ += grid_size();
    find_panels();
  }
  /// Starts the copies of the item's panels. In a slot a chunk begins with its head.
  REPRISE_DEVICE void copy_weights(char* slot) const {
    if (item_ >= items_.count) return;
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const WeightPanel& panel = panels_[part];
      if (panel.bytes == nullptr) continue;
      const int first = chunk_ * kPackedChunkBlocks;
      const int super = first / panel.super_blocks;
      const char* from = panel.bytes + super * panel.super_bytes();
      int head = 0;
      int skipped = 0;  // blocks of the super-block between its head and the chunk
      int64_t bytes = min_of(kPackedChunkBlocks, blocks_ - first) * panel.super_bytes();
      if (panel.super_blocks > 1) {
        head = panel.head_bytes;
        skipped = (first - super * panel.super_blocks) * panel.block_bytes;
        bytes = head + kPackedChunkBlocks * panel.block_bytes;
      }
      char* to = slot + part * kPackedChunkBytes;
      for (int i = lane_index() * 16; i < bytes; i += kWarpSize * 16) {
        copy_words_async(to + i, from + i + (i < head ? 0 : skipped), true);
      }
    }
  }
  /// Starts the copies of `rows` rows of the item. Rows that do not exist are zeros.
  REPRISE_DEVICE void copy_rows(char* slot, int rows) const {
    constexpr int kPieces = kPackedRowBytes / 8;
    if (item_ >= items_.count) return;
    const int64_t row_bytes = int64_t{blocks_} * static_cast<int64_t>(sizeof(ActivationBlock));
    for (int i = lane_index(); i < rows * kPieces; i += kWarpSize) {
      const int row = i / kPieces;
      const int piece = i % kPieces * 8;
      const int64_t x_row = items_.x_row(item_, row);
      const int64_t at = int64_t{chunk_} * kPackedRowBytes + piece;
      const bool there = x_row >= 0 && at < row_bytes;
      copy_pair_async(slot + kParts * kPackedChunkBytes + row * kPackedRowStride + piece,
                      x_ + (there ? x_row * row_bytes + at : 0),
                      there);
    }
  }

 private:
  REPRISE_DEVICE void find_panels() {
    if (item_ >= items_.count) return;
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const int64_t index = items_.panel(item_, part);
      panels_[part].bytes = nullptr;
      if (index >= 0) panels_[part] = find_panel(weight_, index);
    }
  }

  const Items& items_;
  const void* weight_;
  const char* x_;
  int blocks_;
  int64_t item_;
  int chunk_;
  WeightPanel panels_[kParts];
};

}  // namespace reprise::kernels::cuda
