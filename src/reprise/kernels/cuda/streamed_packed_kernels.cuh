#pragma once

#include "reprise/kernels/cuda/packed_linear_kernels.cuh"
#include "reprise/kernels/cuda/slot_ring.cuh"

// Products of up to eight rows with weights in panels of codes, on GPUs with bulk copies. The
// chunks that the eight warps of a block multiply at once lie one after the other, so one bulk copy
// brings them. The sums have the order of packed_linear_kernels.cuh, and so the same bits.
namespace reprise::kernels::cuda {

/// A ring of slots in shared memory. A slot has a stretch of each part's panel, then the same
/// elements of each row of x.
template <typename Form, int kParts>
class PanelRing : public SlotBarriers {
 public:
  static constexpr int kDepth = Form::kStretchChunks * Form::kChunk.elements;
  static constexpr int kRowBytes = Form::kStretchChunks * Form::kChunk.row_bytes;
  static constexpr int kTurns = Form::kStretchChunks / kLinearWarps;  // of each warp
  /// With the gap that rows of a chunk have in the usual kernels, so that no banks collide.
  static constexpr int kRowStride = kRowBytes + Form::kChunk.row_stride % 128;
  static_assert(kRowBytes % 128 == 0 && kRowStride % 16 == 0);
  static constexpr int kSumBytes = kLinearWarps * packed_sum_bytes(1, kParts);
  static constexpr int kSlotsAt = (kSumBytes + kSlotBarrierBytes + 127) / 128 * 128;

  REPRISE_DEVICE PanelRing(const Form& form, int64_t rows)
      : PanelRing(form.most_stretch_bytes(), static_cast<int>(rows)) {}

  [[nodiscard]] REPRISE_DEVICE char* weights(int slot, int part) const {
    return shared_memory() + (kSlotsAt + slot * slot_bytes() + part * part_bytes_);
  }
  [[nodiscard]] REPRISE_DEVICE char* rows(int slot) const { return weights(slot, kParts); }

 private:
  REPRISE_DEVICE PanelRing(int part_bytes, int rows)
      : SlotBarriers(shared_memory() + kSumBytes,
                     static_cast<int>(kStreamedSharedBytes) - kSlotsAt,
                     kParts * part_bytes + rows * kRowStride),
        part_bytes_(part_bytes) {}

  int part_bytes_;
};

/// The copies of a block's panels, for SlotFiller. A tile is an item.
template <typename Form, int kParts, typename Items>
class PanelCopies {
 public:
  using Ring = PanelRing<Form, kParts>;

  REPRISE_DEVICE PanelCopies(const Form& form, const Ring& ring, const Items& items)
      : form_(form), ring_(ring), items_(items), panels_(form, items, block_index()) {}

  REPRISE_DEVICE void begin_tile(int64_t tile) {
    panels_ = ItemPanels<Form, kParts>(form_, items_, tile);
  }
  /// An item without panels has empty slots.
  REPRISE_DEVICE void weights(const SlotCursor& at) {
    PhaseBarrier& full = ring_.full(at.slot);
    const int chunk = at.chunk * Form::kStretchChunks;
    int bytes = 0;
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      if (panels_.is_there) bytes += stretch_bytes(form_, panels_.of[part], chunk);
    }
    full.arrive_as_warp(bytes);
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      if (!panels_.is_there) continue;
      copy_stretch(form_, ring_.weights(at.slot, part), panels_.of[part], chunk, full);
    }
  }
  /// The first `limit` rows of x.
  REPRISE_DEVICE void rows(const SlotCursor& at, int limit) {
    copy_rows(at, limit, [](int row) { return row; });
  }

 protected:
  template <typename RowOf>
  REPRISE_DEVICE void copy_rows(const SlotCursor& at, int count, const RowOf& row_of) {
    PhaseBarrier& full = ring_.full(at.slot);
    const int64_t begin = int64_t{at.chunk} * Ring::kRowBytes;
    const auto bytes = static_cast<int>(min_of(Ring::kRowBytes, form_.row_bytes - begin));
    full.arrive_as_warp(count * bytes);
    char* to = ring_.rows(at.slot);
    for (int row = 0; row < count; ++row) {
      copy_bulk(to, form_.x + (row_of(row) * form_.row_step + begin), bytes, full);
      to += Ring::kRowStride;
    }
  }

  const Form& form_;
  const Ring& ring_;
  const Items& items_;
  ItemPanels<Form, kParts> panels_;  // of the item whose weights are copied
};

/// A result of a product, whose type the kernel learns from its arguments. Its other inputs are
/// loaded while the weights arrive.
template <Epilogue kEpilogue>
class PackedResult {
 public:
  static constexpr int kParts = kEpilogue == Epilogue::silu_and_mul ? 2 : 1;
  static constexpr int kSums = kParts;  // of a result; otherwise each part has results of its own
  using Arguments = PackedLinearArguments;
  using Items = ProductItems<kFragmentRows>;

  /// Whether there is a result in this row and column of an item.
  template <typename Form>
  REPRISE_DEVICE bool load(const Arguments& arguments,
                           const Form& form,
                           const Items& items,
                           const typename Form::Panel& panel,
                           int64_t /*item*/,
                           int /*part*/,
                           int row,
                           int column) {
    if (row >= items.limit || column >= panel.columns) return false;
    row_ = row;
    column_ = panel.column + column;
    factor_ = form.row_factor(row);
    with_type(arguments.type, [&](auto type) {
      using T = decltype(type);
      inputs_ = ProductResult<T, T, kEpilogue>::load_inputs(arguments.of, row_, column_);
    });
    return true;
  }
  /// For Form::finish().
  [[nodiscard]] REPRISE_DEVICE float factor() const { return factor_; }
  REPRISE_DEVICE void store(const PackedLinearArguments& arguments,
                            const float (&products)[kParts]) const {
    with_type(arguments.type, [&](auto type) {
      using T = decltype(type);
      if constexpr (kEpilogue == Epilogue::none) {
        if (arguments.out != arguments.type) return put_as<T, float>(arguments, products);
      }
      put_as<T, T>(arguments, products);
    });
  }

 private:
  template <typename T, typename Out>
  REPRISE_DEVICE void put_as(const PackedLinearArguments& arguments,
                             const float (&products)[kParts]) const {
    ProductResult<T, Out, kEpilogue> result;
    result.place(arguments.of, row_, column_, inputs_);
    result.store(arguments.of, products);
  }

  int64_t row_ = 0;
  int64_t column_ = 0;
  float factor_ = 1;
  ResultInputs inputs_;
};

/// The rows of x that a kernel multiplies at once.
enum class TileRows : uint8_t {
  few,      // up to four, as pairs where these take fewer instructions
  eight,    // up to eight
  by_item,  // one or the other
};

/// sums += a warp's chunks of one slot after the other, for the panels of an item, with rows at
/// Rows{first of a chunk, last}.
template <typename Rows, typename Form, int kParts>
REPRISE_DEVICE void multiply_stretches(const Form& form,
                                       const PanelRing<Form, kParts>& ring,
                                       const ItemPanels<Form, kParts>& panels,
                                       int rows,
                                       SlotCursor& cursor,
                                       typename Form::Sum (&sums)[kParts][1][4]) {
  using Ring = PanelRing<Form, kParts>;
  const int num_chunks = (form.depth + Form::kChunk.elements - 1) / Form::kChunk.elements;
  typename Form::Table tables[kParts];
  REPRISE_UNROLL
  for (int part = 0; part < kParts; ++part) tables[part] = form.table(panels.of[part]);
  for (int i = 0; i < cursor.num_chunks; ++i) {
    const int slot = cursor.slot;
    ring.full(slot).wait(cursor.parity);
    REPRISE_UNROLL
    for (int turn = 0; turn < Ring::kTurns; ++turn) {
      const int place = turn * kLinearWarps + warp_index();
      const int chunk = i * Form::kStretchChunks + place;
      if (chunk >= num_chunks || !panels.is_there) break;
      const Rows of_rows{ring.rows(slot) + place * Form::kChunk.row_bytes, rows - 1};
      REPRISE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        form.multiply_in_stretch(sums[part],
                                 panels.of[part],
                                 tables[part],
                                 ring.weights(slot, part),
                                 of_rows,
                                 place,
                                 chunk);
      }
    }
    sync_warp();  // all lanes have read the slot
    if (lane_index() == 0) ring.empty(slot).arrive();
    cursor.advance_slot();
  }
}

/// The warps that multiply: sums of one item after the other, and their results.
template <typename Form, TileRows kRows, typename Result>
REPRISE_DEVICE void multiply_panels(const typename Result::Arguments& arguments,
                                    const Form& form,
                                    const PanelRing<Form, Result::kParts>& ring,
                                    const typename Result::Items& items) {
  constexpr int kParts = Result::kParts;
  using Panels = ItemPanels<Form, kParts>;
  using Sum = typename Form::Sum;
  using Totals = PackedTotals<Sum, 1, kParts, MultiplyingWarps>;
  constexpr int kThreads = MultiplyingWarps::kThreads;
  constexpr int kStride = PanelRing<Form, kParts>::kRowStride;
  static_assert(Totals::kRows * kPanelColumns * (kParts / Result::kSums) <= kThreads);
  const Totals totals{reinterpret_cast<Sum*>(shared_memory())};
  SlotCursor cursor(form.depth, PanelRing<Form, kParts>::kDepth, ring);
  Panels next(form, items, block_index());
  int first_warp = 0;  // with results. The warps take turns: the others go on with the next item.
  for (int64_t item = block_index(); item < items.count; item += grid_size()) {
    const Panels panels = next;
    // The data of a panel besides its chunks is loaded one item ahead.
    next = Panels(form, items, item + grid_size());
    const int i = (thread_index() + kThreads - first_warp * kWarpSize) % kThreads;
    const int column = i % static_cast<int>(kPanelColumns);  // lane % 16
    const int row = i / static_cast<int>(kPanelColumns) % kFragmentRows;
    const int first_part = i / (static_cast<int>(kPanelColumns) * kFragmentRows);
    Result result;
    const bool has_result =
        first_part < kParts / Result::kSums &&
        result.load(arguments, form, items, panels.of[0], item, first_part, row, column);
    Sum sums[kParts][1][4] = {};
    const int rows = items.rows_of(item);
    const bool are_pairs = Form::kHasPairs && kRows != TileRows::eight &&
                           (kRows == TileRows::few || rows <= kFragmentRows / 2);
    if (are_pairs) {
      if constexpr (Form::kHasPairs && kRows != TileRows::eight) {
        multiply_stretches<PairedRowPlaces<kStride>>(form, ring, panels, rows, cursor, sums);
      }
    } else if constexpr (!Form::kHasPairs || kRows != TileRows::few) {
      multiply_stretches<FewRowPlaces<kStride>>(form, ring, panels, rows, cursor, sums);
    }
    totals.gather(sums);
    if (has_result) {
      float products[Result::kSums] = {};
      REPRISE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        constexpr bool kIsOneOf = Result::kSums < kParts;
        if (!panels.is_there || (kIsOneOf && part != first_part)) continue;
        const Sum sum = totals.total(part, are_pairs ? 2 * row : row, column);
        products[kIsOneOf ? 0 : part] = form.finish(sum, panels.of[part], result.factor());
      }
      result.store(arguments, products);
    }
    first_warp = (first_warp + 1) % kLinearWarps;
  }
}

/// Computes what packed_linear computes for as many rows as kRows says, with the same bits. The
/// block has kStreamedThreads threads. \pre x, its rows and the bytes of a row are aligned to 16
/// bytes
template <typename Form, Epilogue kEpilogue, TileRows kRows>
REPRISE_DEVICE void streamed_packed_linear(const PackedLinearArguments& arguments) {
#if defined(__CUDACC__) && __CUDA_ARCH__ < 900
  __trap();  // no launch chooses this kernel: this code has no bulk copies
#else
  using Result = PackedResult<kEpilogue>;
  using Items = typename Result::Items;
  using Ring = PanelRing<Form, Result::kParts>;
  using Copies = PanelCopies<Form, Result::kParts, Items>;
  const LinearArguments& a = arguments.of.product;
  const Form form(arguments);
  Items items(a, form.num_panels(), Result::kParts);
  const Ring ring(form, a.rows);
  SlotFiller<Copies> filler(
      ring, SlotCursor(a.depth, Ring::kDepth, ring), items.count, Copies(form, ring, items));
  stream_slots(ring, filler, a, [&](int64_t limit) {
    items.limit = limit;
    multiply_panels<Form, kRows, Result>(arguments, form, ring, items);
  });
#endif
}

}  // namespace reprise::kernels::cuda
