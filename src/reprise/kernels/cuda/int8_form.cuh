#pragma once

#include "reprise/kernels/cuda/own_rows.cuh"
#include "reprise/kernels/cuda/packed_stream.cuh"
#include "reprise/kernels/cuda/simple_panel.cuh"
#include "reprise/tensor/int8_panels.h"

// Weights of int8 with one scale for each output (int8_panels.h), with int8 rows: the sums are
// exact over the whole depth, so results have the bits of the CPU's.
namespace reprise::kernels::cuda {

struct Int8Form {
  static constexpr ChunkSizes kChunk = kInt8Chunk;
  static constexpr int kPieceBytes = 16;
  static constexpr int kStretchChunks = kLinearWarps;
  static constexpr bool kIsOneStretch = true;
  static constexpr bool kHasPairs = false;
  using Panel = SimplePanel;
  struct Table {};
  using Sum = int32_t;

  const void* weight;
  const char* x;
  int depth;
  int64_t row_bytes;
  int64_t row_step;
  int64_t panels;
  const float* x_scale;
  int64_t x_scale_stride;

  REPRISE_DEVICE explicit Int8Form(const PackedLinearArguments& a)
      : weight(a.of.product.weight),
        x(static_cast<const char*>(a.of.product.x)),
        depth(static_cast<int>(a.of.product.depth)),
        row_bytes(a.of.product.depth),
        row_step(a.of.product.x_stride),
        panels(a.panels),
        x_scale(a.of.product.x_scale),
        x_scale_stride(a.of.product.x_scale_stride) {}
  [[nodiscard]] REPRISE_DEVICE int64_t num_panels() const { return panels; }
  [[nodiscard]] REPRISE_DEVICE Panel panel(int64_t index) const {
    const int64_t codes = int64_t{depth} * kPanelColumns;
    return simple_panel(weight, index, codes + kInt8TailBytes * kPanelColumns, codes);
  }
  [[nodiscard]] static REPRISE_DEVICE Table table(const Panel& /*panel*/) { return {}; }
  REPRISE_DEVICE void copy(char* to, const Panel& panel, int chunk) const {
    constexpr int kBytes = kChunk.weight_bytes;
    const int64_t begin = int64_t{chunk} * kBytes;
    const int64_t bytes = min_of(kBytes, int64_t{depth} * kPanelColumns - begin);
    copy_chunk_async(to, {panel.bytes + begin, 0, 0, static_cast<int>(bytes)});
  }
  template <int kTiles, typename Rows>
  REPRISE_DEVICE void multiply(int32_t (&sums)[kTiles][4],
                               const Panel& /*panel*/,
                               Table /*table*/,
                               const char* weights,
                               const Rows& rows,
                               int chunk) const {
    constexpr int kStep = 32;  // elements: the depth of a fragment
    const int left = depth - chunk * kChunk.elements;
    const int pair = lane_index() / 4;
    const int member = lane_index() % 4;
    REPRISE_UNROLL
    for (int step = 0; step < kChunk.elements / kStep; ++step) {
      if (step * kStep >= left) break;
      // Four neighbours of sixteen columns take 64 bytes; a lane has those of two columns.
      const char* codes = weights + (step * 8 + member) * 64 + pair * 8;
      const Words2 near = load_two_words(codes);
      const Words2 far = load_two_words(codes + 4 * 64);
      REPRISE_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        const char* row = rows.row(t * kFragmentRows + pair) + step * kStep + member * 4;
        multiply_codes(sums[t],
                       {near.word[0], near.word[1], far.word[0], far.word[1]},
                       {load_word(row), load_word(row + 16)});
      }
    }
  }
  [[nodiscard]] static REPRISE_DEVICE int most_stretch_bytes() {
    return kStretchChunks * kChunk.weight_bytes;
  }
  [[nodiscard]] REPRISE_DEVICE StretchBytes stretch(const Panel& panel, int chunk) const {
    const auto elements =
        static_cast<int>(min_of(kStretchChunks * kChunk.elements, depth - chunk * kChunk.elements));
    return {panel.bytes + int64_t{chunk} * kChunk.weight_bytes,
            elements * static_cast<int>(kPanelColumns)};
  }
  template <typename Rows>
  REPRISE_DEVICE void multiply_in_stretch(int32_t (&sums)[1][4],
                                          const Panel& panel,
                                          Table table,
                                          const char* stretch,
                                          const Rows& rows,
                                          int place,
                                          int chunk) const {
    multiply(sums, panel, table, stretch + place * kChunk.weight_bytes, rows, chunk);
  }
  template <typename T>
  static REPRISE_DEVICE void quantize(const ElementRows<T>& rows,
                                      int limit,
                                      const OwnRowMemory& memory) {
    quantize_whole_rows(rows, limit, memory);
  }
  REPRISE_DEVICE void use_scales(const float* scales) {
    x_scale = scales;
    x_scale_stride = 1;
  }
  [[nodiscard]] REPRISE_DEVICE float row_factor(int64_t row) const {
    return x_scale[row * x_scale_stride];
  }
  /// With the order and the roundings of the CPU's kernels.
  [[nodiscard]] static REPRISE_DEVICE float finish(int32_t sum, const Panel& panel, float factor) {
    return static_cast<float>(sum) * factor * panel.entry;
  }
};

}  // namespace reprise::kernels::cuda
