#pragma once

#include "reprise/kernels/cuda/head_product_arguments.h"
#include "reprise/kernels/cuda/prefill_stream.cuh"

// Products of heads (head_linear) on the tensor cores: a matrix product for each head. The order of
// a sum is that of its depth, so a row has the same bits in every batch and in tiles of every size.
namespace reprise::kernels::cuda {

/// A block's tile of rows and columns of one head. Whatever lies beyond the rows, columns or depth
/// of the product counts as zero.
template <typename T, HeadTile kTile>
class HeadProduct {
 public:
  REPRISE_DEVICE HeadProduct(const HeadLinearArguments& a,
                             int64_t head,
                             int64_t first_row,
                             int64_t first_column)
      : a_(a),
        x_(static_cast<const T*>(a.first_head.x) + first_row * a.first_head.x_stride +
           head * a.x_head_stride),
        weight_(static_cast<const T*>(a.first_head.weight) +
                (head * a.first_head.columns + first_column) * a.first_head.depth),
        out_(static_cast<T*>(a.first_head.out) +
             (first_row * a.heads + head) * a.first_head.columns + first_column),
        rows_(static_cast<int>(min_of(kTile.rows(), a.first_head.rows - first_row))),
        columns_(static_cast<int>(min_of(kTile.columns(), a.first_head.columns - first_column))) {}

  REPRISE_DEVICE void run() {
    const auto count = static_cast<int>(ceil_div(a_.first_head.depth, int64_t{HeadTile::kDepth}));
    for (int step = 0; step < kTile.slots - 1; ++step) {
      if (step < count) load(step);
      commit_copies();
    }
    for (int step = 0; step < count; ++step) {
      wait_for_copies<kTile.slots - 2>();
      sync_block();  // the slot is there, and all warps have read the one before
      if (step + kTile.slots - 1 < count) load(step + kTile.slots - 1);
      commit_copies();
      multiply(step % kTile.slots);
    }
    wait_for_copies<0>();
    store();
  }

 private:
  using Slot = SharedRows<HeadTile::kDepth>;
  static constexpr int kRowBytes = HeadTile::kDepth * 2;
  static constexpr int kSlotBytes = (kTile.rows() + kTile.columns()) * kRowBytes;
  static_assert(kTile.slots >= 2);

  static REPRISE_DEVICE Slot rows_of(int slot) { return {shared_memory() + slot * kSlotBytes}; }
  static REPRISE_DEVICE Slot columns_of(int slot) {
    return {shared_memory() + slot * kSlotBytes + kTile.rows() * kRowBytes};
  }
  static REPRISE_DEVICE int first_row() {
    return warp_index() / kTile.column_groups * kTile.sets * 16;
  }
  static REPRISE_DEVICE int first_column() {
    return warp_index() % kTile.column_groups * kTile.pairs * 16;
  }

  REPRISE_DEVICE void load(int step) const {
    const int chunk = thread_index() % 8;
    const int k = step * HeadTile::kDepth + chunk * 8;
    const bool is_inside = k < a_.first_head.depth;
    const auto copy = [&](const Slot& to, const T* from, int64_t stride, int count, int most) {
      for (int row = thread_index() / 8; row < most; row += kTile.threads() / 8) {
        const bool is_there = is_inside && row < count;
        copy_words_async(to.chunk(row, chunk), from + (is_there ? row * stride + k : 0), is_there);
      }
    };
    const int slot = step % kTile.slots;
    copy(columns_of(slot), weight_, a_.first_head.depth, columns_, kTile.columns());
    copy(rows_of(slot), x_, a_.first_head.x_stride, rows_, kTile.rows());
  }

  REPRISE_DEVICE void multiply(int slot) {
    const int lane = lane_index();
    REPRISE_UNROLL
    for (int step = 0; step < HeadTile::kDepth / 16; ++step) {
      uint32_t left[kTile.sets][4];
      REPRISE_UNROLL
      for (int set = 0; set < kTile.sets; ++set) {
        const int row = first_row() + set * 16 + lane % 16;
        load_fragments(left[set], shared_address(rows_of(slot).chunk(row, step * 2 + lane / 16)));
      }
      REPRISE_UNROLL
      for (int pair = 0; pair < kTile.pairs; ++pair) {
        const int column = first_column() + pair * 16 + lane / 16 * 8 + lane % 8;
        uint32_t right[4];
        load_fragments(right,
                       shared_address(columns_of(slot).chunk(column, step * 2 + lane / 8 % 2)));
        REPRISE_UNROLL
        for (int i = 0; i < 2; ++i) {
          const uint32_t of_tile[2] = {right[i * 2], right[i * 2 + 1]};
          REPRISE_UNROLL
          for (int set = 0; set < kTile.sets; ++set) {
            multiply_fragments<T>(sums_[set][pair * 2 + i], left[set], of_tile);
          }
        }
      }
    }
  }

  REPRISE_DEVICE void store() const {
    const int64_t stride = a_.heads * a_.first_head.columns;
    REPRISE_UNROLL
    for (int set = 0; set < kTile.sets; ++set) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = first_row() + set * 16 + half * 8 + lane_index() / 4;
        if (row >= rows_) continue;
        REPRISE_UNROLL
        for (int tile = 0; tile < kTile.pairs * 2; ++tile) {
          const int column = first_column() + tile * 8 + lane_index() % 4 * 2;
          if (column >= columns_) continue;
          const float (&sums)[4] = sums_[set][tile];
          *reinterpret_cast<uint32_t*>(out_ + row * stride + column) =
              pack<T>(sums[half * 2], sums[half * 2 + 1]);
        }
      }
    }
  }

  const HeadLinearArguments& a_;
  const T* x_;
  const T* weight_;
  T* out_;
  int rows_;
  int columns_;
  float sums_[kTile.sets][kTile.pairs * 2][4] = {};
};

/// The blocks of a head have its tiles, by rows first. \pre x and weight are aligned to 16 bytes,
/// and so are their strides; depth and columns are multiples of eight
template <typename T, HeadTile kTile>
REPRISE_DEVICE void head_product(const HeadLinearArguments& a) {
  const int64_t column_tiles = ceil_div(a.first_head.columns, int64_t{kTile.columns()});
  const int64_t head = block_index() / a.blocks_per_head;
  const int64_t tile = block_index() % a.blocks_per_head;
  HeadProduct<T, kTile>(
      a, head, tile / column_tiles * kTile.rows(), tile % column_tiles * kTile.columns())
      .run();
}

}  // namespace reprise::kernels::cuda
