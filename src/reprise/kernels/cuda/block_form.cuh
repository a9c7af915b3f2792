#pragma once

#include "reprise/kernels/cuda/packed_codes.cuh"
#include "reprise/kernels/cuda/packed_stream.cuh"

// Weights in blocks (block_panels.h), with activations that are quantised in blocks: integer
// products, whose sums are exact within a block, and float32 sums over the blocks. A block of a
// panel, sixteen columns of 32 elements, is one fragment.
namespace reprise::kernels::cuda {

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
  const char* codes = x + group * kBlockChunk.row_stride + member * 4;
  const uint32_t b[2] = {load_word(codes), load_word(codes + 16)};
  float scales[2];
  float halves[2][2] = {};  // sums of codes: [half][row]
  REPRISE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const char* row = x + (2 * member + i) * kBlockChunk.row_stride + kPanelBlock;
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
REPRISE_DEVICE void multiply_chunk(float (&sums)[kTiles][4],
                                   const char* weights,
                                   const char* x,
                                   int blocks) {
  constexpr PanelLayout kLayout = panel_layout(kFormat);
  constexpr int kHead = kPanelColumns * kLayout.head_bytes;
  constexpr int kBlock = kPanelColumns * (kLayout.code_bytes + kLayout.scale_bytes);
  constexpr bool kHasOwnHeads = kLayout.super_blocks == 1;
  const int pair = lane_index() / 4;
  const int member = lane_index() % 4;
  constexpr int kBlocks = kBlockChunk.elements / kPanelBlock;
  REPRISE_UNROLL
  for (int b = 0; b < kBlocks; ++b) {
    if (kHasOwnHeads && b >= blocks) break;
    const char* head = weights + (kHasOwnHeads ? b * (kHead + kBlock) : 0);
    const char* codes = weights + kHead + b * (kHasOwnHeads ? kHead + kBlock : kBlock);
    const BlockCodes block = load_block<kFormat>(head, codes, pair, member);
    REPRISE_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      multiply_block<kFormat>(sums[t],
                              block,
                              x + t * kFragmentRows * kBlockChunk.row_stride +
                                  b * static_cast<int>(sizeof(ActivationBlock)));
    }
  }
}

struct BlockForm {
  static constexpr ChunkSizes kChunk = kBlockChunk;
  static constexpr int kPieceBytes = 8;  // rows are multiples of 40 bytes
  using Panel = WeightPanel;
  struct Table {};
  using Sum = float;

  const void* weight;
  const char* x;
  int depth;
  int64_t row_bytes;
  int64_t row_step;

  REPRISE_DEVICE explicit BlockForm(const PackedLinearArguments& a)
      : weight(a.of.product.weight),
        x(static_cast<const char*>(a.of.product.x)),
        depth(static_cast<int>(a.of.product.depth)),
        row_bytes(a.of.product.depth / kPanelBlock * static_cast<int>(sizeof(ActivationBlock))),
        row_step(row_bytes) {}
  [[nodiscard]] REPRISE_DEVICE int64_t num_panels() const {
    return static_cast<const PanelHeader*>(weight)->panels;
  }
  [[nodiscard]] REPRISE_DEVICE Panel panel(int64_t index) const {
    return find_panel(weight, index);
  }
  /// In a slot a chunk begins with its head.
  REPRISE_DEVICE void copy(char* to, const Panel& panel, int chunk) const {
    constexpr int kBlocks = kChunk.elements / kPanelBlock;
    const int first = chunk * kBlocks;
    const int super = first / panel.super_blocks;
    const char* from = panel.bytes + super * panel.super_bytes();
    if (panel.super_blocks == 1) {
      const auto bytes = min_of(kBlocks, depth / kPanelBlock - first) * panel.super_bytes();
      return copy_chunk_async(to, {from, 0, 0, static_cast<int>(bytes)});
    }
    // Blocks of the super-block lie between its head and the chunk.
    const int skipped = (first - super * panel.super_blocks) * panel.block_bytes;
    copy_chunk_async(
        to, {from, panel.head_bytes, skipped, panel.head_bytes + kBlocks * panel.block_bytes});
  }
  template <int kTiles>
  REPRISE_DEVICE void multiply(float (&sums)[kTiles][4],
                               const Panel& panel,
                               Table /*table*/,
                               const char* weights,
                               const char* rows,
                               int chunk) const {
    const int left = (depth - chunk * kChunk.elements) / kPanelBlock;
    with_format(panel.format, [&](auto format) {
      multiply_chunk<decltype(format)::kFormat>(sums, weights, rows, left);
    });
  }
  [[nodiscard]] static REPRISE_DEVICE Table table(const Panel& /*panel*/) { return {}; }
  [[nodiscard]] static REPRISE_DEVICE float finish(float sum, const Panel&, int64_t /*row*/) {
    return sum;
  }
};

}  // namespace reprise::kernels::cuda
