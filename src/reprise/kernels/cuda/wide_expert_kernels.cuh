#pragma once

#include "reprise/kernels/cuda/packed_expert_kernels.cuh"

// Products of experts with many rows: a block computes 64 rows of an expert and eight panels, so
// that each weight and each row that it reads serves many products. A warp has a panel and all
// rows.
//
// A result has the bits of packed_expert_linear, where eight warps divide the depth: here a warp
// takes their chunks one after the other, and adds their sums in the same order.
namespace reprise::kernels::cuda {

/// The chunks of a depth in the order of their use: those of the first of eight parts, then those
/// of the next one.
struct ChunksByPart {
  int count;
  int chunk = 0;

  REPRISE_DEVICE void next() {
    chunk += kLinearWarps;
    if (chunk >= count) chunk = chunk % kLinearWarps + 1;
  }
  [[nodiscard]] REPRISE_DEVICE bool is_last_of_part() const {
    return chunk + kLinearWarps >= count;
  }
};

/// The operands of a block's product: a tile of rows, and neighbouring panels of its expert.
struct WideItem {
  ExpertTile tile;
  int first_panel;  // of the expert
  int panels;       // of the expert, all of them

  REPRISE_DEVICE WideItem(const PackedExpertArguments& a, int64_t item)
      : panels(static_cast<int>(ceil_div(a.linear.of.product.columns, kPanelColumns))) {
    const int groups = static_cast<int>(ceil_div(panels, kWidePanels));
    tile = a.tiles[static_cast<int>(item) / groups];
    first_panel = static_cast<int>(item) % groups * kWidePanels;
  }
  /// Panel `index` of the item, or one without bytes.
  template <typename Form>
  [[nodiscard]] REPRISE_DEVICE typename Form::Panel panel(const Form& form, int index) const {
    typename Form::Panel none = {};
    const int of_expert = first_panel + index;
    if (tile.expert < 0 || of_expert >= panels) return none;
    return form.panel(int64_t{tile.expert} * panels + of_expert);
  }
};

/// totals = the products of a warp's panel with the rows of an item. The block copies chunks ahead.
template <typename Form>
REPRISE_DEVICE void multiply_wide(const Form& form,
                                  const typename Form::Panel& panel,
                                  int x_row,  // of the rows that the warp copies, by lane
                                  typename Form::Sum (&totals)[kWideTiles][4]) {
  constexpr ChunkSizes kChunk = Form::kChunk;
  constexpr int kStages = wide_stages(kChunk);
  constexpr int kStageBytes = wide_stage_bytes(kChunk);
  constexpr int kRowsAt = kWidePanels * kChunk.weight_bytes;
  const int warp = warp_index();
  const auto copy = [&](int stage, int chunk) {
    char* to = shared_memory() + stage * kStageBytes;
    if (panel.bytes != nullptr) form.copy(to + warp * kChunk.weight_bytes, panel, chunk);
    copy_rows_async(
        form, to + kRowsAt + warp * kFragmentRows * kChunk.row_stride, kFragmentRows, x_row, chunk);
  };
  typename Form::Table table;
  if (panel.bytes != nullptr) table = form.table(panel);
  const int chunks = (form.depth + kChunk.elements - 1) / kChunk.elements;
  ChunksByPart ahead{chunks};
  for (int i = 0; i < kStages - 1; ++i, ahead.next()) {
    if (i < chunks) copy(i, ahead.chunk);
    commit_copies();
  }
  typename Form::Sum sums[kWideTiles][4] = {};
  ChunksByPart now{chunks};
  for (int i = 0; i < chunks; ++i, now.next()) {
    wait_for_copies<kStages - 2>();
    sync_block();  // the chunk is there, and no warp reads the one before it
    if (i + kStages - 1 < chunks) {
      copy((i + kStages - 1) % kStages, ahead.chunk);
      ahead.next();
    }
    commit_copies();
    if (panel.bytes == nullptr) continue;
    const char* from = shared_memory() + i % kStages * kStageBytes;
    form.multiply(sums,
                  panel,
                  table,
                  from + warp * kChunk.weight_bytes,
                  ChunkRowPlaces<kChunk.row_stride>{from + kRowsAt},
                  now.chunk);
    if (!now.is_last_of_part()) continue;
    REPRISE_UNROLL
    for (int t = 0; t < kWideTiles; ++t) {
      REPRISE_UNROLL
      for (int j = 0; j < 4; ++j) {
        totals[t][j] += sums[t][j];
        sums[t][j] = 0;
      }
    }
  }
}

/// \pre the rows are in tiles of kWideRows rows
template <typename Form>
REPRISE_DEVICE void wide_expert_linear(const PackedExpertArguments& arguments) {
  using Sum = typename Form::Sum;
  constexpr int kStride = kWidePanels * kPackedSumStride;  // of the sums of a row
  const LinearArguments& a = arguments.linear.of.product;
  const Form form(arguments.linear);
  auto* shared = reinterpret_cast<Sum*>(shared_memory());
  const int pair = lane_index() / 4;
  const int member = lane_index() % 4;
  const int64_t groups = ceil_div(ceil_div(a.columns, kPanelColumns), kWidePanels);
  const int64_t count = int64_t{*arguments.num_tiles} * groups;
  for (int64_t index = block_index(); index < count; index += grid_size()) {
    const WideItem item(arguments, index);
    const ExpertTile& tile = item.tile;
    const auto row_of = [&](int row) -> int64_t {
      return row < tile.count ? arguments.order[tile.first + row] : -1;
    };
    const int64_t copied = row_of(warp_index() * kFragmentRows + lane_index() % kFragmentRows);
    Sum totals[kWideTiles][4] = {};
    multiply_wide(form,
                  item.panel(form, warp_index()),
                  static_cast<int>(copied < 0 ? -1 : copied / arguments.rows_per_x),
                  totals);
    sync_block();  // all chunks were read
    REPRISE_UNROLL
    for (int t = 0; t < kWideTiles; ++t) {
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) {
        shared[(t * kFragmentRows + 2 * member + i % 2) * kStride +
               warp_index() * kPackedSumStride + 2 * pair + i / 2] = totals[t][i];
      }
    }
    sync_block();
    // A thread has the same panel in all its rows, and column lane % 16 of it.
    constexpr int kColumnsOfItem = kWidePanels * static_cast<int>(kPanelColumns);
    const int own = thread_index() % kColumnsOfItem / static_cast<int>(kPanelColumns);
    const int column = thread_index() % static_cast<int>(kPanelColumns);
    const typename Form::Panel panel = item.panel(form, own);
    const int64_t output = int64_t{item.first_panel + own} * kPanelColumns + column;
    for (int row = thread_index() / kColumnsOfItem; row < tile.count && output < a.columns;
         row += num_threads() / kColumnsOfItem) {
      const int64_t out = row_of(row);
      float product = 0;
      if (tile.expert >= 0) {
        const Sum sum = shared[row * kStride + own * kPackedSumStride + column];
        product = form.finish(sum, panel, form.row_factor(out));
      }
      store_expert_product(arguments, tile.expert, out, output, product);
    }
    sync_block();  // all sums were read
  }
  wait_for_copies<0>();  // only empty groups remain
}

}  // namespace reprise::kernels::cuda
