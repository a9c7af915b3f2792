#pragma once

#include "reprise/kernels/cuda/linear_kernels.cuh"
#include "reprise/kernels/cuda/packed_stream.cuh"
#include "reprise/kernels/cuda/product_result.cuh"

// Products with weights in blocks (block_panels.h), with activations that are quantised in blocks:
// integer products on the tensor cores, whose sums are exact within a block, and float32 sums over
// the blocks. A block of a panel, sixteen columns of 32 elements, is one fragment. The order of a
// sum depends only on the depth, so a row has the same bits in any batch of any size.
namespace reprise::kernels::cuda {

/// The sums of a warp: [fragment of rows][2 * column + row], for two columns and two rows.
template <int kTiles>
struct PackedSums {
  float of[kTiles][4];
};

/// sums += the products of a block, or of half of it, times its scales. `rows` are the lane's two
/// rows of x.
template <bool kHasLeast>
REPRISE_DEVICE void add_products(float (&sums)[4],
                                 const int32_t (&products)[4],
                                 const float (&scale)[2],
                                 const float (&least)[2],
                                 const float (&row_scale)[2],
                                 const float (&row_sum)[2]) {
  REPRISE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int row = i % 2;
    const float product = row_scale[row] * static_cast<float>(products[i]);
    sums[i] = multiply_add(scale[i / 2], product, sums[i]);
    if constexpr (kHasLeast) {
      sums[i] = multiply_add(least[i / 2], row_scale[row] * row_sum[row], sums[i]);
    }
  }
}

/// sums += block times eight rows of x. `x` is the block of the first row.
template <PanelFormat kFormat>
REPRISE_DEVICE void multiply_block(float (&sums)[4], const BlockCodes& block, const char* x) {
  constexpr CodeTraits kTraits = code_traits(kFormat);
  const int group = lane_index() / 4;
  const int member = lane_index() % 4;
  const char* codes = x + group * kPackedRowStride + member * 4;
  const uint32_t b[2] = {load_word(codes), load_word(codes + 16)};
  float scales[2];
  float halves[2][2] = {};  // sums of codes: [half][row]
  REPRISE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const char* row = x + (2 * member + i) * kPackedRowStride + kPanelBlock;
    scales[i] = float_of(load_word(row));
    if constexpr (kTraits.has_least) {
      const uint32_t both = load_word(row + 4);
      halves[0][i] = static_cast<float>(static_cast<int16_t>(both));
      halves[1][i] = static_cast<float>(static_cast<int16_t>(both >> 16));
    }
  }
  if constexpr (kTraits.has_halves) {
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      int32_t products[4] = {};
      multiply_half_codes(products, {block.codes[2 * half], block.codes[2 * half + 1]}, b[half]);
      add_products<kTraits.has_least>(
          sums, products, block.scale[half], block.least[half], scales, halves[half]);
    }
  } else {
    const float whole[2] = {halves[0][0] + halves[1][0], halves[0][1] + halves[1][1]};
    int32_t products[4] = {};
    multiply_codes(products, block.codes, b);
    add_products<kTraits.has_least>(sums, products, block.scale[0], block.least[0], scales, whole);
  }
}

/// sums += a chunk of a panel times a chunk of the rows, both in shared memory.
template <PanelFormat kFormat, int kTiles>
REPRISE_DEVICE void multiply_chunk(PackedSums<kTiles>& sums,
                                   const char* weights,
                                   const char* x,
                                   int blocks) {
  constexpr PanelLayout kLayout = panel_layout(kFormat);
  constexpr int kHead = kPanelColumns * kLayout.head_bytes;
  constexpr int kBlock = kPanelColumns * (kLayout.code_bytes + kLayout.scale_bytes);
  constexpr bool kHasOwnHeads = kLayout.super_blocks == 1;
  const int pair = lane_index() / 4;
  const int member = lane_index() % 4;
  REPRISE_UNROLL
  for (int b = 0; b < kPackedChunkBlocks; ++b) {
    if (kHasOwnHeads && b >= blocks) break;
    const char* head = weights + (kHasOwnHeads ? b * (kHead + kBlock) : 0);
    const char* codes = weights + kHead + b * (kHasOwnHeads ? kHead + kBlock : kBlock);
    const BlockCodes block = load_block<kFormat>(head, codes, pair, member);
    REPRISE_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      multiply_block<kFormat>(
          sums.of[t],
          block,
          x + t * kFragmentRows * kPackedRowStride + b * static_cast<int>(sizeof(ActivationBlock)));
    }
  }
}

/// The sums of a block's warps in shared memory, [warp][part][row][column].
template <int kTiles, int kParts>
struct PackedTotals {
  static constexpr int kRows = kTiles * kFragmentRows;
  static constexpr int kPartSize = kRows * kPackedSumStride;
  float* shared;

  /// All threads of the block must call this.
  REPRISE_DEVICE void gather(const PackedSums<kTiles> (&sums)[kParts]) const {
    const int pair = lane_index() / 4;
    const int member = lane_index() % 4;
    sync_block();  // all threads have read the sums of the item before
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      float* mine = shared + (warp_index() * kParts + part) * kPartSize;
      REPRISE_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        REPRISE_UNROLL
        for (int i = 0; i < 4; ++i) {
          mine[(t * kFragmentRows + 2 * member + i % 2) * kPackedSumStride + 2 * pair + i / 2] =
              sums[part].of[t][i];
        }
      }
    }
    sync_block();
  }
  [[nodiscard]] REPRISE_DEVICE float total(int part, int row, int column) const {
    float sum = 0;
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

template <typename T, typename Out, Epilogue kEpilogue, typename Sums>
REPRISE_DEVICE void store_packed(const CudaLinearArguments& a,
                                 int64_t row,
                                 int64_t column,
                                 const Sums& sums) {
  ProductResult<T, Out, kEpilogue> result;
  result.load(a, row, column);
  result.store(a, sums);
}

/// The panels of an item as the products need them. Without any, the rows of the item are zeros.
template <int kParts>
struct ItemPanels {
  bool is_there = true;
  PanelFormat formats[kParts];
  int columns = kPanelColumns;  // of the result
  int64_t first_column = 0;

  template <typename Items>
  REPRISE_DEVICE ItemPanels(const Items& items, const void* weight, int64_t item) {
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const int64_t index = items.panel(item, part);
      is_there = is_there && index >= 0;
      if (index < 0) continue;
      const WeightPanel panel = find_panel(weight, index);
      formats[part] = panel.format;
      if (part > 0) continue;
      columns = panel.columns;
      first_column = panel.column;
    }
  }
};

/// The ring of a warp in shared memory: chunks of panels, each with the same chunk of the rows.
template <int kTiles, int kParts, typename Items>
struct PackedRing {
  static constexpr int kSlots = packed_slots(kTiles, kParts);
  static constexpr int kSlotBytes = packed_slot_bytes(kTiles, kParts);
  using Cursor = PackedCursor<kTiles, kParts, Items>;

  char* memory;
  Cursor cursor;  // the next copy
  int blocks;     // of the depth
  int slot = 0;   // of the next products

  REPRISE_DEVICE PackedRing(const Items& items, const LinearArguments& a)
      : memory(shared_memory() + warp_index() * kSlots * kSlotBytes),
        cursor(items, a),
        blocks(static_cast<int>(a.depth / kPanelBlock)) {
    Cursor ahead(items, a);
    for (int i = 0; i < kSlots; ++i, ahead.next()) ahead.copy_weights(memory + i * kSlotBytes);
  }
  /// Starts the copies of the rows that belong to the weights of the constructor.
  REPRISE_DEVICE void begin_rows() {
    for (int i = 0; i < kSlots; ++i, cursor.next()) {
      cursor.copy_rows(memory + i * kSlotBytes, kTiles * kFragmentRows);
      commit_copies();
    }
  }
  /// sums += the warp's chunks of the panels times the rows of an item, of which `rows` may exist.
  REPRISE_DEVICE void multiply(PackedSums<kTiles> (&sums)[kParts],
                               const ItemPanels<kParts>& panels,
                               int rows) {
    for (int chunk = warp_index(); chunk < cursor.num_chunks(); chunk += kLinearWarps) {
      char* now = memory + slot * kSlotBytes;
      wait_for_copies<kSlots - 1>();
      sync_warp();  // the words of all lanes are there
      const int left = blocks - chunk * kPackedChunkBlocks;
      REPRISE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        if (!panels.is_there) continue;
        with_format(panels.formats[part], [&](auto format) {
          multiply_chunk<decltype(format)::kFormat>(
              sums[part], now + part * kPackedChunkBytes, now + kParts * kPackedChunkBytes, left);
        });
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
/// result it calls store(item, row, column, sums).
template <int kTiles, int kParts, typename Items, typename Before, typename Store>
REPRISE_DEVICE void multiply_packed(Items& items,
                                    const LinearArguments& a,
                                    const Before& before,
                                    const Store& store) {
  using Ring = PackedRing<kTiles, kParts, Items>;
  using Totals = PackedTotals<kTiles, kParts>;
  Ring ring(items, a);
  if (!before()) {
    commit_copies();
    wait_for_copies<0>();
    return;
  }
  ring.begin_rows();
  const Totals totals{
      reinterpret_cast<float*>(shared_memory() + kLinearWarps * Ring::kSlots * Ring::kSlotBytes)};
  const int rows = items.most_rows();
  for (int64_t item = block_index(); item < items.count; item += grid_size()) {
    const ItemPanels<kParts> panels(items, a.weight, item);
    PackedSums<kTiles> sums[kParts] = {};
    ring.multiply(sums, panels, rows);
    totals.gather(sums);
    for (int i = thread_index(); i < Totals::kRows * kPanelColumns; i += num_threads()) {
      const int column = i % kPanelColumns;
      const int64_t row = items.out_row(item, i / kPanelColumns);
      if (row < 0 || column >= panels.columns) continue;
      float found[kParts];
      REPRISE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        found[part] = totals.total(part, i / kPanelColumns, column);
      }
      store(item, row, panels.first_column + column, found);
    }
  }
  wait_for_copies<0>();  // only empty groups remain
}

template <int kTiles, Epilogue kEpilogue>
REPRISE_DEVICE void packed_linear(const PackedLinearArguments& arguments) {
  constexpr int kParts = kEpilogue == Epilogue::silu_and_mul ? 2 : 1;
  ProductItems<kTiles * kFragmentRows> items(arguments, kParts);
  multiply_packed<kTiles, kParts>(
      items,
      arguments.of.product,
      [&] {
        wait_for_earlier_kernels();
        items.limit = row_limit(arguments.of.product);
        return items.limit > 0;
      },
      [&](int64_t, int64_t row, int64_t column, const float (&sums)[kParts]) {
        with_type(arguments.type, [&](auto type) {
          using T = decltype(type);
          if constexpr (kEpilogue == Epilogue::none) {
            if (arguments.out != arguments.type) {
              return store_packed<T, float, kEpilogue>(arguments.of, row, column, sums);
            }
          }
          store_packed<T, T, kEpilogue>(arguments.of, row, column, sums);
        });
      });
}

REPRISE_DEVICE void packed_expert_linear(const PackedExpertArguments& arguments) {
  const LinearArguments& a = arguments.linear.of.product;
  ExpertItems items(arguments);
  multiply_packed<1, 1>(
      items,
      a,
      [] { return true; },
      [&](int64_t item, int64_t row, int64_t column, const float (&sums)[1]) {
        // `column` counts the columns of all experts; an expert below 0 has none of its own.
        const int64_t expert = items.expert(item);
        const int64_t own =
            expert < 0 ? item % items.panels * kPanelColumns + column : column - expert * a.columns;
        with_type(arguments.linear.type, [&](auto type) {
          using T = decltype(type);
          float sum = sums[0];
          if (a.bias != nullptr && expert >= 0) {
            sum += as_float(static_cast<const T*>(a.bias)[column]);
          }
          put(static_cast<T*>(a.out) + row * a.columns + own, sum);
        });
      });
}

}  // namespace reprise::kernels::cuda
