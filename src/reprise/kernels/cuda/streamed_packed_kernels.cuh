#pragma once

#include "reprise/kernels/cuda/packed_linear_kernels.cuh"
#include "reprise/kernels/cuda/slot_ring.cuh"

// Products of up to eight rows with weights in panels of codes, on GPUs with bulk copies. The
// chunks that the eight warps of a block multiply at once lie one after the other, so one bulk copy
// brings them. The sums have the order of packed_linear_kernels.cuh, and so the same bits.
namespace reprise::kernels::cuda {

/// Where a product has its rows from.
enum class RowSource : uint8_t {
  copies,  // bulk copies bring quantised rows, one part of the depth after the other
  block,   // each block quantises all rows of elements before it multiplies: own_rows.cuh
};

/// A ring of slots in shared memory. A slot has a stretch of each part's panel, then the same
/// elements of each row of x, unless the block has rows of its own. These lie before the ring.
template <typename Form, int kParts, RowSource kSource = RowSource::copies>
class PanelRing : public SlotBarriers {
 public:
  static constexpr bool kHasOwnRows = kSource == RowSource::block;
  static constexpr int kDepth = Form::kStretchChunks * Form::kChunk.elements;
  static constexpr int kRowBytes = Form::kStretchChunks * Form::kChunk.row_bytes;
  static constexpr int kTurns = Form::kStretchChunks / kLinearWarps;  // of each warp
  /// With the gap that rows of a chunk have in the usual kernels, so that no banks collide.
  static constexpr int kRowStride = kRowBytes + Form::kChunk.row_stride % 128;
  static_assert(kRowBytes % 128 == 0 && kRowStride % 16 == 0);
  static constexpr int kSumBytes = kLinearWarps * packed_sum_bytes(1, kParts);
  static constexpr int kScalesAt = kSumBytes + kSlotBarrierBytes;  // of own rows
  static constexpr int kScaleBytes = kHasOwnRows ? kFragmentRows * 4 : 0;
  static constexpr int kRowsAt = (kScalesAt + kScaleBytes + 127) / 128 * 128;

  REPRISE_DEVICE PanelRing(const Form& form, int64_t rows)
      : PanelRing(form.most_stretch_bytes(),
                  static_cast<int>(rows),
                  kHasOwnRows ? stride_of_own_rows(form.depth) : kRowStride) {}

  [[nodiscard]] REPRISE_DEVICE char* weights(int slot, int part) const {
    return shared_memory() + (slots_at_ + slot * slot_bytes() + part * part_bytes_);
  }
  [[nodiscard]] REPRISE_DEVICE char* rows(int slot) const { return weights(slot, kParts); }
  [[nodiscard]] REPRISE_DEVICE OwnRowMemory own_rows() const {
    return {.rows = shared_memory() + kRowsAt,
            .stride = row_stride_,
            .scales = reinterpret_cast<float*>(shared_memory() + kScalesAt),
            .parts = nullptr};
  }
  /// The rows of a chunk, which is in this place of a slot.
  template <bool kIsPaired>
  [[nodiscard]] REPRISE_DEVICE auto places(int slot, int place, int chunk, int rows_of_item) const {
    const int last = rows_of_item - 1;
    if constexpr (kHasOwnRows) {
      const char* first = shared_memory() + (kRowsAt + chunk * Form::kChunk.row_bytes);
      return WholeRowPlaces<kIsPaired>{first, last, row_stride_};
    } else {
      const char* first = rows(slot) + place * Form::kChunk.row_bytes;
      if constexpr (kIsPaired) {
        return PairedRowPlaces<kRowStride>{first, last};
      } else {
        return FewRowPlaces<kRowStride>{first, last};
      }
    }
  }

 private:
  [[nodiscard]] static REPRISE_DEVICE int stride_of_own_rows(int depth) {
    constexpr ChunkSizes kChunk = Form::kChunk;
    return own_row_stride(kChunk, depth);
  }
  REPRISE_DEVICE PanelRing(int part_bytes, int rows, int row_stride)
      : PanelRing(part_bytes,
                  rows,
                  row_stride,
                  kHasOwnRows ? (kRowsAt + rows * row_stride + 127) / 128 * 128 : kRowsAt) {}
  REPRISE_DEVICE PanelRing(int part_bytes, int rows, int row_stride, int slots_at)
      : SlotBarriers(shared_memory() + kSumBytes,
                     static_cast<int>(kStreamedSharedBytes) - slots_at,
                     kParts * part_bytes + (kHasOwnRows ? 0 : rows * kRowStride)),
        part_bytes_(part_bytes),
        row_stride_(row_stride),
        slots_at_(slots_at) {}

  int part_bytes_;
  int row_stride_;
  int slots_at_;
};

/// The copies of a block's panels, for SlotFiller. A tile is an item.
template <typename Form, int kParts, typename Items, RowSource kSource = RowSource::copies>
class PanelCopies {
 public:
  using Ring = PanelRing<Form, kParts, kSource>;
  static constexpr bool kHasRows = kSource == RowSource::copies;

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

  [[nodiscard]] static REPRISE_DEVICE Items items(const CudaLinearArguments& a, int64_t panels) {
    return Items(a.product, panels, kParts);
  }
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

/// The work of a product with rope_kv_write: the items are pairs of panels, half a head apart.
struct HeadItems : ProductItems<kFragmentRows> {
  int64_t panels_of_half;

  REPRISE_DEVICE HeadItems(const CudaLinearArguments& a, int64_t num_panels)
      : ProductItems(a.product, num_panels, 2),
        panels_of_half(a.to.head_dim / (2 * kPanelColumns)) {}
  [[nodiscard]] REPRISE_DEVICE int64_t panel(int64_t item, int part) const {
    const int64_t head = item / panels_of_half;
    return (2 * head + part) * panels_of_half + item % panels_of_half;
  }
};

/// Pairs of elements of a head, which are rotated and stored in q, or in the caches. T: the type of
/// the model. \pre half a head is whole panels, and so is each part of a weight in blocks; the
/// heads have no norms, and the caches have the type of the model
template <typename T>
class HeadResult {
 public:
  static constexpr int kParts = 2;
  static constexpr int kSums = kParts;
  using Arguments = PackedLinearArguments;
  using Items = HeadItems;

  [[nodiscard]] static REPRISE_DEVICE Items items(const CudaLinearArguments& a, int64_t panels) {
    return Items(a, panels);
  }
  template <typename Form>
  REPRISE_DEVICE bool load(const Arguments& arguments,
                           const Form& form,
                           const Items& items,
                           const typename Form::Panel& panel,
                           int64_t /*item*/,
                           int /*part*/,
                           int row,
                           int column) {
    if (row >= items.limit) return false;
    factor_ = form.row_factor(row);
    result_.load(arguments.of, row, panel.column + column);
    return true;
  }
  [[nodiscard]] REPRISE_DEVICE float factor() const { return factor_; }
  REPRISE_DEVICE void store(const Arguments& arguments, const float (&products)[kParts]) const {
    result_.store(arguments.of, products);
  }

 private:
  float factor_ = 1;
  ProductResult<T, T, Epilogue::rope_kv_write> result_;
};

/// The rows of x that a kernel multiplies at once.
enum class TileRows : uint8_t {
  few,      // up to four, as pairs where these take fewer instructions
  eight,    // up to eight
  by_item,  // one or the other
};

/// sums += a warp's chunks of one slot after the other, for the panels of an item.
template <bool kIsPaired, typename Form, int kParts, RowSource kSource>
REPRISE_DEVICE void multiply_stretches(const Form& form,
                                       const PanelRing<Form, kParts, kSource>& ring,
                                       const ItemPanels<Form, kParts>& panels,
                                       int rows,
                                       SlotCursor& cursor,
                                       typename Form::Sum (&sums)[kParts][1][4]) {
  using Ring = PanelRing<Form, kParts, kSource>;
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
      const auto of_rows = ring.template places<kIsPaired>(slot, place, chunk, rows);
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
template <typename Form, TileRows kRows, typename Result, RowSource kSource>
REPRISE_DEVICE void multiply_panels(const typename Result::Arguments& arguments,
                                    const Form& form,
                                    const PanelRing<Form, Result::kParts, kSource>& ring,
                                    const typename Result::Items& items) {
  constexpr int kParts = Result::kParts;
  using Panels = ItemPanels<Form, kParts>;
  using Sum = typename Form::Sum;
  using Totals = PackedTotals<Sum, 1, kParts, MultiplyingWarps>;
  constexpr int kThreads = MultiplyingWarps::kThreads;
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
        multiply_stretches<true>(form, ring, panels, rows, cursor, sums);
      }
    } else if constexpr (!Form::kHasPairs || kRows != TileRows::few) {
      multiply_stretches<false>(form, ring, panels, rows, cursor, sums);
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

/// Calls act(T{}) for the type of the rows that a block quantises.
template <typename Act>
REPRISE_DEVICE void with_short_type(PackedType type, const Act& act) {
  if (type == PackedType::f16) return act(Float16{});
  act(BFloat16{});
}

/// Runs a block of kStreamedThreads threads of a product. \pre x, its rows and the bytes of a row
/// are aligned to 16 bytes. With rows of the block's own x has elements of 16 bits, and all rows
/// together take at most most_own_row_bytes() when they are quantised
template <typename Form, TileRows kRows, RowSource kSource, typename Result>
REPRISE_DEVICE void stream_panels(const PackedLinearArguments& arguments) {
#if defined(__CUDACC__) && __CUDA_ARCH__ < 900
  __trap();  // no launch chooses this kernel: this code has no bulk copies
#else
  using Items = typename Result::Items;
  using Ring = PanelRing<Form, Result::kParts, kSource>;
  using Copies = PanelCopies<Form, Result::kParts, Items, kSource>;
  const LinearArguments& a = arguments.of.product;
  Form form(arguments);
  Items items = Result::items(arguments.of, form.num_panels());
  const Ring ring(form, a.rows);
  SlotFiller<Copies> filler(
      ring, SlotCursor(a.depth, Ring::kDepth, ring), items.count, Copies(form, ring, items));
  stream_slots(ring, filler, a, [&](int64_t limit) {
    items.limit = limit;
    if constexpr (Ring::kHasOwnRows) {
      const OwnRowMemory rows = ring.own_rows();
      form.use_scales(rows.scales);
      with_short_type(arguments.type, [&](auto type) {
        quantize_own_rows<decltype(type), Form>(
            arguments.of, static_cast<int>(limit), reinterpret_cast<float*>(shared_memory()), rows);
      });
    }
    multiply_panels<Form, kRows, Result>(arguments, form, ring, items);
  });
#endif
}

/// Computes what packed_linear computes for as many rows as kRows says, with the same bits.
template <typename Form, Epilogue kEpilogue, TileRows kRows, RowSource kSource = RowSource::copies>
REPRISE_DEVICE void streamed_packed_linear(const PackedLinearArguments& arguments) {
  stream_panels<Form, kRows, kSource, PackedResult<kEpilogue>>(arguments);
}

/// Computes what packed_linear and rope_kv_write compute, with the same bits, from rows of
/// elements.
template <typename T, typename Form, TileRows kRows>
REPRISE_DEVICE void streamed_packed_heads(const PackedLinearArguments& arguments) {
  stream_panels<Form, kRows, RowSource::block, HeadResult<T>>(arguments);
}

}  // namespace reprise::kernels::cuda
