#pragma once

#include "reprise/kernels/cuda/packed_linear_kernels.cuh"
#include "reprise/kernels/cuda/row_form.cuh"

// Products of experts on the tensor cores. Rows of the same expert become tiles, whose weights are
// read once for each tile. Only the device knows the experts: a kernel of one block makes the
// tiles, and the blocks of the product share those that there are. So the launches depend on the
// shapes only, and a row's bits on that row only.
namespace reprise::kernels::cuda {

/// Inclusive sums over the experts: of rows in the low half of a word, of tiles in the high half.
struct SlotSums {
  const uint64_t* sums;

  [[nodiscard]] REPRISE_DEVICE int rows_before(int slot) const {
    return slot == 0 ? 0 : static_cast<int>(static_cast<uint32_t>(sums[slot - 1]));
  }
  [[nodiscard]] REPRISE_DEVICE int tiles_before(int slot) const {
    return slot == 0 ? 0 : static_cast<int>(sums[slot - 1] >> 32);
  }
};

/// Inclusive sums over `count` words in shared memory; `other` has room for as many. Returns which
/// of the two holds the sums. All threads of the block must call this.
REPRISE_DEVICE uint64_t* sum_slots(uint64_t* words, uint64_t* other, int count) {
  for (int distance = 1; distance < count; distance *= 2) {
    sync_block();
    for (int i = thread_index(); i < count; i += num_threads()) {
      other[i] = words[i] + (i >= distance ? words[i - distance] : 0);
    }
    uint64_t* sums = other;
    other = words;
    words = sums;
  }
  sync_block();
  return words;
}

/// One block. Rows whose expert another rank has (-1) come first.
REPRISE_DEVICE void group_rows(const GroupRowsArguments& a) {
  const int slots = a.num_experts + 1;
  auto* words = reinterpret_cast<uint64_t*>(shared_memory());
  auto* counts = reinterpret_cast<int32_t*>(words + 2 * kMostExpertSlots);
  for (int i = thread_index(); i < slots; i += num_threads()) counts[i] = 0;
  sync_block();
  for (int row = thread_index(); row < a.rows; row += num_threads()) {
    (void)atomic_add(counts + a.experts[row] + 1, 1);
  }
  sync_block();
  for (int i = thread_index(); i < slots; i += num_threads()) {
    const auto rows = static_cast<uint32_t>(counts[i]);
    const auto tile_rows = static_cast<uint32_t>(a.tile_rows);
    words[i] = rows | (uint64_t{(rows + tile_rows - 1) / tile_rows} << 32);
  }
  const SlotSums sums{sum_slots(words, words + kMostExpertSlots, slots)};
  for (int slot = warp_index(); slot < slots; slot += num_warps()) {
    const int begin = sums.rows_before(slot);
    const int end = sums.rows_before(slot + 1);
    const int first_tile = sums.tiles_before(slot);
    for (int i = lane_index(); begin + i * a.tile_rows < end; i += kWarpSize) {
      const int first = begin + i * a.tile_rows;
      a.tiles[first_tile + i] = {.expert = slot - 1,
                                 .first = first,
                                 .count = static_cast<int>(min_of(a.tile_rows, end - first)),
                                 .unused = 0};
    }
  }
  if (thread_index() == 0) *a.num_tiles = sums.tiles_before(slots);
  for (int i = thread_index(); i < slots; i += num_threads()) counts[i] = sums.rows_before(i);
  sync_block();  // the first place of each expert is known
  for (int row = thread_index(); row < a.rows; row += num_threads()) {
    // Threads of the same expert may come in any order: it changes no row's bits.
    a.order[atomic_add(counts + a.experts[row] + 1, 1)] = row;
  }
}

/// The work of a product of experts: an item is a tile of rows of one expert and kParts
/// neighbouring panels of it. The last item of a tile may have the last panel more than once.
template <int kRows, int kParts = 1>
struct ExpertItems {
  const PackedExpertArguments& a;
  int panels;  // of an expert
  int items_per_tile;
  int64_t count;

  REPRISE_DEVICE explicit ExpertItems(const PackedExpertArguments& arguments)
      : a(arguments),
        panels(static_cast<int>(ceil_div(arguments.linear.of.product.columns, kPanelColumns))),
        items_per_tile((panels + kParts - 1) / kParts),
        count(arguments.tiles == nullptr ? arguments.linear.of.product.rows
                                         : int64_t{*arguments.num_tiles}) {
    count *= items_per_tile;
  }
  [[nodiscard]] REPRISE_DEVICE ExpertTile tile(int64_t item) const {
    const int index = static_cast<int>(item) / items_per_tile;
    if (a.tiles != nullptr) return a.tiles[index];
    return {.expert = a.experts[index], .first = index, .count = 1, .unused = 0};
  }
  /// It may be behind the last one.
  [[nodiscard]] REPRISE_DEVICE int panel_of_expert(int64_t item, int part = 0) const {
    return static_cast<int>(item) % items_per_tile * kParts + part;
  }
  [[nodiscard]] REPRISE_DEVICE int64_t panel(int64_t item, int part) const {
    const int expert = tile(item).expert;
    const int of_expert = panel_of_expert(item, part);
    return expert < 0 ? -1
                      : int64_t{expert} * panels + (of_expert < panels ? of_expert : panels - 1);
  }
  [[nodiscard]] REPRISE_DEVICE int64_t x_row(int64_t item, int row) const {
    const int64_t out = out_row(item, row);
    return out < 0 ? -1 : out / a.rows_per_x;
  }
  [[nodiscard]] REPRISE_DEVICE int64_t out_row(int64_t item, int row) const {
    const ExpertTile of = tile(item);
    if (row >= of.count) return -1;
    return a.tiles == nullptr ? of.first : a.order[of.first + row];
  }
  [[nodiscard]] REPRISE_DEVICE int rows_of(int64_t item) const { return tile(item).count; }
  [[nodiscard]] REPRISE_DEVICE int most_rows() const { return a.tiles == nullptr ? 1 : kRows; }
};

/// Adds the bias of the expert, and stores an element of the result.
REPRISE_DEVICE void store_expert_product(
    const PackedExpertArguments& arguments, int expert, int64_t row, int64_t output, float value) {
  const LinearArguments& a = arguments.linear.of.product;
  with_type(arguments.linear.type, [&](auto type) {
    using T = decltype(type);
    if (a.bias != nullptr && expert >= 0) {
      value += as_float(static_cast<const T*>(a.bias)[expert * a.columns + output]);
    }
    put(static_cast<T*>(a.out) + row * a.columns + output, value);
  });
}

template <typename Form, int kTiles>
REPRISE_DEVICE void packed_expert_linear(const PackedExpertArguments& arguments) {
  const Form form(arguments.linear);
  ExpertItems<kTiles * kFragmentRows> items(arguments);
  multiply_packed<kTiles, 1>(
      form,
      items,
      [] { return true; },
      [&](int64_t item,
          int64_t row,
          const typename Form::Panel&,
          int column,
          const float (&products)[1]) {
        const int64_t output = int64_t{items.panel_of_expert(item)} * kPanelColumns + column;
        // The last panel of an expert that has no rows is not a short one.
        if (output >= arguments.linear.of.product.columns) return;
        store_expert_product(arguments, items.tile(item).expert, row, output, products[0]);
      });
}

}  // namespace reprise::kernels::cuda
