#pragma once

#include "reprise/kernels/cuda/block_form.cuh"
#include "reprise/kernels/cuda/linear_kernels.cuh"
#include "reprise/kernels/cuda/packed_stream.cuh"
#include "reprise/kernels/cuda/product_result.cuh"

// Products with weights in panels of codes. Sixteen columns of a panel are the left operand on the
// tensor cores, and eight rows of x the right one. The order of a sum depends only on the depth, so
// a row has the same bits in any batch of any size.
namespace reprise::kernels::cuda {

/// The sums of a block's warps in shared memory, [warp][part][row][column].
template <typename Sum, int kTiles, int kParts, typename Threads = WholeBlock>
struct PackedTotals {
  static constexpr int kRows = kTiles * kFragmentRows;
  static constexpr int kPartSize = kRows * kPackedSumStride;
  Sum* shared;

  /// All threads that multiply must call this. The sums are [part][fragment of rows][2 * column +
  /// row], for two columns and two rows of each lane.
  REPRISE_DEVICE void gather(const Sum (&sums)[kParts][kTiles][4]) const {
    const int pair = lane_index() / 4;
    const int member = lane_index() % 4;
    Threads::sync();  // all threads have read the sums of the item before
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      Sum* mine = shared + (warp_index() * kParts + part) * kPartSize;
      REPRISE_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        REPRISE_UNROLL
        for (int i = 0; i < 4; ++i) {
          mine[(t * kFragmentRows + 2 * member + i % 2) * kPackedSumStride + 2 * pair + i / 2] =
              sums[part][t][i];
        }
      }
    }
    Threads::sync();
  }
  [[nodiscard]] REPRISE_DEVICE Sum total(int part, int row, int column) const {
    Sum sum = 0;
    REPRISE_UNROLL
    for (int warp = 0; warp < kLinearWarps; ++warp) {
      sum += shared[(warp * kParts + part) * kPartSize + row * kPackedSumStride + column];
    }
    return sum;
  }
};

/// Calls act(T{}) for the type of the model.
template <typename Act>
REPRISE_DEVICE void with_type(PackedType type, const Act& act) {
  switch (type) {
    case PackedType::f32:
      return act(float{});
    case PackedType::bf16:
      return act(BFloat16{});
    case PackedType::f16:
      return act(Float16{});
  }
}

/// The panels of an item as the products need them. Without any, the rows of the item are zeros.
template <typename Form, int kParts>
struct ItemPanels {
  bool is_there = false;
  typename Form::Panel of[kParts] = {};

  template <typename Items>
  REPRISE_DEVICE ItemPanels(const Form& form, const Items& items, int64_t item) {
    if (item >= items.count) return;
    is_there = true;
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const int64_t index = items.panel(item, part);
      is_there = is_there && index >= 0;
      of[part].columns = kPanelColumns;
      if (index >= 0) of[part] = form.panel(index);
    }
  }
};

/// The ring of a warp in shared memory: chunks of panels, each with the same chunk of the rows.
template <typename Form, int kTiles, int kParts, typename Items>
struct PackedRing {
  static constexpr int kSlots = packed_slots(Form::kChunk, kTiles, kParts);
  static constexpr int kSlotBytes = packed_slot_bytes(Form::kChunk, kTiles, kParts);
  static constexpr int kRowsAt = kParts * Form::kChunk.weight_bytes;
  static_assert(kSlots >= 2);
  using Cursor = PackedCursor<Form, kParts, Items>;

  const Form& form;
  char* memory;
  Cursor cursor;  // the next copy
  int slot = 0;   // of the next products

  REPRISE_DEVICE PackedRing(const Form& of_weight, const Items& items)
      : form(of_weight),
        memory(shared_memory() + warp_index() * kSlots * kSlotBytes),
        cursor(of_weight, items) {
    Cursor ahead(of_weight, items);
    for (int i = 0; i < kSlots; ++i, ahead.next()) ahead.copy_weights(memory + i * kSlotBytes);
  }
  /// Starts the copies of the rows that belong to the weights of the constructor.
  REPRISE_DEVICE void begin_rows() {
    cursor.find_rows();
    for (int i = 0; i < kSlots; ++i, cursor.next()) {
      cursor.copy_rows(memory + i * kSlotBytes, kTiles * kFragmentRows);
      commit_copies();
    }
  }
  /// sums += the warp's chunks of the panels times the rows of an item, of which `rows` may exist.
  REPRISE_DEVICE void multiply(typename Form::Sum (&sums)[kParts][kTiles][4],
                               const ItemPanels<Form, kParts>& panels,
                               int rows) {
    typename Form::Table tables[kParts];
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      if (panels.is_there) tables[part] = form.table(panels.of[part]);
    }
    for (int chunk = warp_index(); chunk < cursor.num_chunks(); chunk += kLinearWarps) {
      char* now = memory + slot * kSlotBytes;
      wait_for_copies<kSlots - 1>();
      sync_warp();  // the words of all lanes are there
      REPRISE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        if (!panels.is_there) continue;
        form.multiply(sums[part],
                      panels.of[part],
                      tables[part],
                      now + part * Form::kChunk.weight_bytes,
                      ChunkRowPlaces<Form::kChunk.row_stride>{now + kRowsAt},
                      chunk);
      }
      sync_warp();  // all lanes have read their words
      cursor.copy_weights(now);
      cursor.copy_rows(now, rows);
      commit_copies();
      cursor.next();
      if (++slot == kSlots) slot = 0;
    }
  }
};

/// Multiplies and stores the items of a block. It starts the loads of the first weights, then calls
/// before(), which waits for earlier kernels and returns false if the product has no rows. For each
/// result it calls store(item, row, panel, column, products), where `column` is one of the first
/// panel's.
template <int kTiles, int kParts, typename Form, typename Items, typename Before, typename Store>
REPRISE_DEVICE void multiply_packed(const Form& form,
                                    Items& items,
                                    const Before& before,
                                    const Store& store) {
  using Ring = PackedRing<Form, kTiles, kParts, Items>;
  using Sum = typename Form::Sum;
  using Totals = PackedTotals<Sum, kTiles, kParts>;
  Ring ring(form, items);
  if (!before()) {
    commit_copies();
    wait_for_copies<0>();
    return;
  }
  ring.begin_rows();
  const Totals totals{
      reinterpret_cast<Sum*>(shared_memory() + kLinearWarps * Ring::kSlots * Ring::kSlotBytes)};
  const int rows = items.most_rows();
  ItemPanels<Form, kParts> next(form, items, block_index());
  for (int64_t item = block_index(); item < items.count; item += grid_size()) {
    const ItemPanels<Form, kParts> panels = next;
    // The data of a panel besides its chunks is loaded one item ahead.
    next = ItemPanels<Form, kParts>(form, items, item + grid_size());
    Sum sums[kParts][kTiles][4] = {};
    ring.multiply(sums, panels, rows);
    totals.gather(sums);
    for (int i = thread_index(); i < Totals::kRows * kPanelColumns; i += num_threads()) {
      const int column = i % kPanelColumns;  // lane % 16
      const int64_t row = items.out_row(item, i / kPanelColumns);
      if (row < 0 || column >= panels.of[0].columns) continue;
      float products[kParts] = {};
      REPRISE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        if (!panels.is_there) continue;
        const Sum sum = totals.total(part, i / kPanelColumns, column);
        products[part] = form.finish(sum, panels.of[part], form.row_factor(row));
      }
      store(item, row, panels.of[0], column, products);
    }
  }
  wait_for_copies<0>();  // only empty groups remain
}

template <typename Form, int kTiles, Epilogue kEpilogue>
REPRISE_DEVICE void packed_linear(const PackedLinearArguments& arguments) {
  constexpr int kParts = kEpilogue == Epilogue::silu_and_mul ? 2 : 1;
  const LinearArguments& a = arguments.of.product;
  const Form form(arguments);
  ProductItems<kTiles * kFragmentRows> items(a, form.num_panels(), kParts);
  multiply_packed<kTiles, kParts>(
      form,
      items,
      [&] {
        wait_for_earlier_kernels();
        items.limit = row_limit(a);
        return items.limit > 0;
      },
      [&](int64_t,
          int64_t row,
          const typename Form::Panel& panel,
          int column,
          const float (&products)[kParts]) {
        with_type(arguments.type, [&](auto type) {
          using T = decltype(type);
          const int64_t output = panel.column + column;
          if constexpr (kEpilogue == Epilogue::none) {
            if (arguments.out != arguments.type) {
              return store_product<T, float, kEpilogue>(arguments.of, row, output, products);
            }
          }
          store_product<T, T, kEpilogue>(arguments.of, row, output, products);
        });
      });
}

}  // namespace reprise::kernels::cuda
