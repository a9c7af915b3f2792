#pragma once

#include "reprise/kernels/cuda/own_rows.cuh"
#include "reprise/kernels/cuda/packed_codes.cuh"
#include "reprise/kernels/cuda/packed_stream.cuh"

// Weights in blocks (block_panels.h), with activations that are quantised in blocks: integer
// products, whose sums are exact within a block, and float32 sums over the blocks. A block of a
// panel, sixteen columns of 32 elements, is one fragment.
namespace reprise::kernels::cuda {

/// sums += the products of a block, or of half of it, times its scales. A lane has two rows of x;
/// with kAreFirst only the first one counts.
template <bool kHasLeast, bool kAreFirst>
REPRISE_DEVICE void add_products(float (&sums)[4],
                                 const int32_t (&products)[4],
                                 const float (&scale)[2],
                                 const float (&least)[2],
                                 const float (&row_scale)[2],
                                 const float (&row_sum)[2]) {
  REPRISE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int row = i % 2;
    if (kAreFirst && row == 1) continue;
    const float product = row_scale[row] * static_cast<float>(products[i]);
    sums[i] = multiply_add(scale[i / 2], product, sums[i]);
    if constexpr (kHasLeast) {
      sums[i] = multiply_add(least[i / 2], row_scale[row] * row_sum[row], sums[i]);
    }
  }
}

/// sums += block times eight rows of x, from row `first` on. `at`: where the block is in a row.
template <PanelFormat kFormat, typename Rows>
REPRISE_DEVICE void multiply_block(
    float (&sums)[4], const BlockCodes& block, const Rows& rows, int first, int at) {
  constexpr CodeTraits kTraits = code_traits(kFormat);
  const int group = lane_index() / 4;
  const int member = lane_index() % 4;
  const char* codes = rows.row(first + group) + at + member * 4;
  const uint32_t b[2] = {load_word(codes), load_word(codes + 16)};
  float scales[2] = {};
  float halves[2][2] = {};  // sums of codes: [half][row]
  float whole[2] = {};      // of both halves
  REPRISE_UNROLL
  for (int i = 0; i < (Rows::kAreFirst ? 1 : 2); ++i) {
    const char* row = rows.row(first + 2 * member + i) + at + kPanelBlock;
    if constexpr (kTraits.has_least) {
      const Words2 words = load_two_words(row);
      scales[i] = float_of(words.word[0]);
      const auto first_half = static_cast<int16_t>(words.word[1]);
      const auto second_half = static_cast<int16_t>(words.word[1] >> 16);
      if constexpr (kTraits.has_halves) {
        halves[0][i] = static_cast<float>(first_half);
        halves[1][i] = static_cast<float>(second_half);
      } else {
        whole[i] = static_cast<float>(first_half + second_half);
      }
    } else {
      scales[i] = float_of(load_word(row));
    }
  }
  if constexpr (kTraits.has_halves) {
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      int32_t products[4] = {};
      multiply_half_codes(products, {block.codes[2 * half], block.codes[2 * half + 1]}, b[half]);
      add_products<kTraits.has_least, Rows::kAreFirst>(
          sums, products, block.scale[half], block.least[half], scales, halves[half]);
    }
  } else {
    int32_t products[4] = {};
    multiply_codes(products, block.codes, b);
    add_products<kTraits.has_least, Rows::kAreFirst>(
        sums, products, block.scale[0], block.least[0], scales, whole);
  }
}

/// The bytes of a super-block, and which of them one chunk needs.
template <PanelFormat kFormat>
struct SuperBlock {
  static constexpr PanelLayout kLayout = panel_layout(kFormat);
  static constexpr bool kHasOwnHeads = kLayout.super_blocks == 1;  // each of its blocks
  static constexpr int kHead = static_cast<int>(kPanelColumns * kLayout.head_bytes);
  static constexpr int kBlock =
      static_cast<int>(kPanelColumns * (kLayout.code_bytes + kLayout.scale_bytes));
  static constexpr int kBlocksOfChunk = kBlockChunk.elements / kPanelBlock;
  static constexpr int kBytes = kHead + static_cast<int>(kLayout.super_blocks) * kBlock;

  /// Where the head and the blocks of chunk `index` are in a stretch.
  [[nodiscard]] static REPRISE_DEVICE int head_at(int index) {
    return index * kBlocksOfChunk / static_cast<int>(kLayout.super_blocks) * kBytes;
  }
  [[nodiscard]] static REPRISE_DEVICE int blocks_at(int index) {
    return head_at(index) + kHead +
           index * kBlocksOfChunk % static_cast<int>(kLayout.super_blocks) * kBlock;
  }
};

/// sums += a chunk of a panel times a chunk of the rows, both in shared memory. `head`, `blocks`:
/// where the chunk's are.
template <PanelFormat kFormat, int kTiles, typename Rows>
REPRISE_DEVICE void multiply_chunk(float (&sums)[kTiles][4],
                                   const char* head,
                                   const char* blocks,
                                   const Rows& rows,
                                   int num_blocks) {
  using Super = SuperBlock<kFormat>;
  constexpr int kStep = Super::kBlock + (Super::kHasOwnHeads ? Super::kHead : 0);
  const int pair = lane_index() / 4;
  const int member = lane_index() % 4;
  REPRISE_UNROLL
  for (int b = 0; b < Super::kBlocksOfChunk; ++b) {
    if (Super::kHasOwnHeads && b >= num_blocks) break;
    const BlockCodes block = load_block<kFormat>(
        head + (Super::kHasOwnHeads ? b * kStep : 0), blocks + b * kStep, pair, member);
    REPRISE_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      multiply_block<kFormat>(
          sums[t], block, rows, t * kFragmentRows, b * static_cast<int>(sizeof(ActivationBlock)));
    }
  }
}

struct BlockForm {
  static constexpr ChunkSizes kChunk = kBlockChunk;
  static constexpr int kPieceBytes = 8;  // rows are multiples of 40 bytes
  static constexpr int kStretchChunks = kLinearWarps;
  static constexpr bool kHasPairs = true;  // four rows take fewer instructions as pairs
  static constexpr int kExpertParts = 2;
  static constexpr bool kIsOneStretch = true;
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
  template <int kTiles, typename Rows>
  REPRISE_DEVICE void multiply(float (&sums)[kTiles][4],
                               const Panel& panel,
                               Table /*table*/,
                               const char* weights,
                               const Rows& rows,
                               int chunk) const {
    with_format(panel.format, [&](auto format) {
      constexpr PanelFormat kFormat = decltype(format)::kFormat;
      multiply_chunk<kFormat>(
          sums, weights, weights + SuperBlock<kFormat>::kHead, rows, blocks_from(chunk));
    });
  }
  [[nodiscard]] REPRISE_DEVICE int most_stretch_bytes() const {
    const auto* header = static_cast<const PanelHeader*>(weight);
    int64_t most = 0;
    for (int i = 0; i < header->num_parts; ++i) {
      const PanelLayout layout = panel_layout(header->parts[i].format);
      const int64_t bytes =
          layout.head_bytes + layout.super_blocks * (layout.code_bytes + layout.scale_bytes);
      const int64_t stretch = kBlocksOfStretch / layout.super_blocks * kPanelColumns * bytes;
      most = stretch > most ? stretch : most;
    }
    return static_cast<int>(most);
  }
  [[nodiscard]] REPRISE_DEVICE StretchBytes stretch(const Panel& panel, int chunk) const {
    const int first = chunk * (kChunk.elements / kPanelBlock);
    const auto blocks = static_cast<int>(min_of(kBlocksOfStretch, depth / kPanelBlock - first));
    return {panel.bytes + first / panel.super_blocks * panel.super_bytes(),
            blocks / panel.super_blocks * static_cast<int>(panel.super_bytes())};
  }
  template <typename Rows>
  REPRISE_DEVICE void multiply_in_stretch(float (&sums)[1][4],
                                          const Panel& panel,
                                          Table /*table*/,
                                          const char* stretch,
                                          const Rows& rows,
                                          int place,
                                          int chunk) const {
    with_format(panel.format, [&](auto format) {
      constexpr PanelFormat kFormat = decltype(format)::kFormat;
      using Super = SuperBlock<kFormat>;
      multiply_chunk<kFormat>(sums,
                              stretch + Super::head_at(place),
                              stretch + Super::blocks_at(place),
                              rows,
                              blocks_from(chunk));
    });
  }
  template <typename T>
  static REPRISE_DEVICE void quantize(const ElementRows<T>& rows,
                                      int limit,
                                      const OwnRowMemory& memory) {
    quantize_rows_in_blocks(rows, limit, memory);
  }
  REPRISE_DEVICE void use_scales(const float* /*scales*/) {}
  [[nodiscard]] static REPRISE_DEVICE Table table(const Panel& /*panel*/) { return {}; }
  [[nodiscard]] static REPRISE_DEVICE float row_factor(int64_t /*row*/) { return 1; }
  [[nodiscard]] static REPRISE_DEVICE float finish(float sum, const Panel&, float /*factor*/) {
    return sum;
  }

 private:
  static constexpr int kBlocksOfStretch = kStretchChunks * kChunk.elements / kPanelBlock;
  [[nodiscard]] REPRISE_DEVICE int blocks_from(int chunk) const {
    return (depth - chunk * kChunk.elements) / kPanelBlock;
  }
};

}  // namespace reprise::kernels::cuda
