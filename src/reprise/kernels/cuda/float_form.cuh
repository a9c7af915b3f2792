#pragma once

#include "reprise/kernels/cuda/cache_codes.cuh"
#include "reprise/kernels/cuda/own_rows.cuh"
#include "reprise/kernels/cuda/packed_codes.cuh"
#include "reprise/kernels/cuda/packed_stream.cuh"
#include "reprise/kernels/cuda/simple_panel.cuh"
#include "reprise/tensor/float_panels.h"

// Weights of smaller floats (float_panels.h) with activations as they are: codes become elements of
// the model's type in registers. Float8 is exact there; the numbers of four-bit floats are rounded.
// A sum of a group is scaled and then added, as on the CPU.
namespace reprise::kernels::cuda {

/// The numbers of sixteen codes as elements of 16 bits: the low bytes, and the high bytes.
struct NumberTable {
  CodeTable low;
  CodeTable high;
};

/// Lane i has the number of code i % 16. All lanes of a warp must call this.
template <typename T>
REPRISE_DEVICE NumberTable make_number_table(float number) {
  NumberTable table = {};
  const auto bits = static_cast<int>(pack<T>(number, 0.0F) & 0xffffU);
  REPRISE_UNROLL
  for (int i = 0; i < 16; ++i) {
    const auto element = static_cast<uint32_t>(shuffle_from(bits, i));
    table.low.word[i / 4] |= (element & 0xffU) << (i % 4 * 8);
    table.high.word[i / 4] |= (element >> 8) << (i % 4 * 8);
  }
  return table;
}

/// The numbers of eight codes, in pairs of neighbours.
REPRISE_DEVICE void look_up_numbers(const NumberTable& table,
                                    uint32_t codes,
                                    uint32_t (&pairs)[4]) {
  REPRISE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const uint32_t low = look_up_four(table.low, codes >> (16 * half));
    const uint32_t high = look_up_four(table.high, codes >> (16 * half));
    pairs[2 * half] = permute_bytes(low, high, 0x5140U);
    pairs[2 * half + 1] = permute_bytes(low, high, 0x7362U);
  }
}

/// The part that both forms of smaller floats share.
struct FloatWeight {
  const void* weight;
  const char* x;
  int depth;
  int64_t row_bytes;
  int64_t row_step;
  int64_t panels;
  int64_t panel_bytes;
  int64_t group;  // elements that share a scale
  bool has_group_scales;
  bool is_e5m2;

  REPRISE_DEVICE FloatWeight(const PackedLinearArguments& arguments, int element_bytes)
      : weight(arguments.of.product.weight),
        x(static_cast<const char*>(arguments.of.product.x)),
        depth(static_cast<int>(arguments.of.product.depth)),
        row_bytes(arguments.of.product.depth * element_bytes),
        row_step(arguments.of.product.x_stride * element_bytes),
        panels(arguments.panels),
        panel_bytes(arguments.of.product.column_bytes * kPanelColumns),
        group(arguments.of.product.group),
        has_group_scales(float_panel_group(arguments.of.product.codec) != 0),
        is_e5m2(arguments.of.product.codec == PanelFormat::f8e5m2_rows ||
                arguments.of.product.codec == PanelFormat::f8e5m2_g128) {}

  /// Its rows are elements, so only their norm is computed.
  template <typename T>
  static REPRISE_DEVICE void quantize(const ElementRows<T>& rows,
                                      int limit,
                                      const OwnRowMemory& memory) {
    norm_rows(rows, limit, memory);
  }
  REPRISE_DEVICE void use_scales(const float* /*scales*/) {}
};

/// sums += those of a group, or of a part of it, times the scales of a lane's two columns.
template <int kTiles>
REPRISE_DEVICE void add_scaled(float (&sums)[kTiles][4],
                               const float (&group)[kTiles][4],
                               const ColumnPair& scales) {
  REPRISE_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    REPRISE_UNROLL
    for (int i = 0; i < 4; ++i) {
      sums[t][i] = multiply_add(scales.of[i / 2], group[t][i], sums[t][i]);
    }
  }
}

/// Two neighbouring elements of two columns, from their float8 codes: exact. A code has a shorter
/// exponent than T, so its bits are those of T for a number that is 2^-bias times as large.
template <typename T, bool kIsE5M2>
REPRISE_DEVICE void widen_columns(uint32_t codes, uint32_t& first, uint32_t& second) {
  constexpr bool kIsBFloat16 = __is_same(T, BFloat16);
  // The exponent of a code ends so many bits further left than that of T.
  constexpr int kShift = (kIsBFloat16 ? 3 : 0) + (kIsE5M2 ? 0 : 1);
  constexpr int kBias = kIsBFloat16 ? (kIsE5M2 ? 112 : 120) : (kIsE5M2 ? 0 : 8);
  constexpr uint32_t kEachByte = 0x01010101U;
  // The high bytes of all four elements, then the low ones.
  const uint32_t high = (codes & (0x80U * kEachByte)) |
                        ((codes & ((0x7fU >> kShift << kShift) * kEachByte)) >> kShift);
  const uint32_t low = (codes << (8 - kShift)) & (((0xffU << (8 - kShift)) & 0xffU) * kEachByte);
  first = permute_bytes(low, high, 0x5140U);
  second = permute_bytes(low, high, 0x7362U);
  if constexpr (kBias != 0) {
    constexpr uint32_t kMinusZeros = kSignPair;
    first = multiply_add_pairs<T>(first, power_pair<T>(kBias), kMinusZeros);
    second = multiply_add_pairs<T>(second, power_pair<T>(kBias), kMinusZeros);
  }
}

/// Float8. T has 16 bits.
template <typename T>
struct Float8Form : FloatWeight {
  static constexpr ChunkSizes kChunk = kFloat8Chunk;
  static constexpr int kPieceBytes = 16;
  static constexpr int kStretchChunks = 2 * kLinearWarps;  // chunks are short
  static constexpr bool kIsOneStretch = true;
  static constexpr bool kHasPairs = false;
  static constexpr int kExpertParts = 1;
  static constexpr int kCodeBytes = kChunk.elements * static_cast<int>(kPanelColumns);
  using Panel = SimplePanel;
  struct Table {};
  using Sum = float;

  REPRISE_DEVICE explicit Float8Form(const PackedLinearArguments& a) : FloatWeight(a, sizeof(T)) {}
  [[nodiscard]] REPRISE_DEVICE int64_t num_panels() const { return panels; }
  [[nodiscard]] REPRISE_DEVICE Panel panel(int64_t index) const {
    const int64_t scales = has_group_scales ? -1 : int64_t{depth} * kPanelColumns;
    return simple_panel(weight, index, panel_bytes, scales);
  }
  [[nodiscard]] static REPRISE_DEVICE Table table(const Panel& /*panel*/) { return {}; }
  /// In a slot the scales of the group follow the codes of a whole chunk.
  REPRISE_DEVICE void copy(char* to, const Panel& panel, int chunk) const {
    const int64_t begin = int64_t{chunk} * kCodeBytes;
    if (!has_group_scales) {
      const int64_t bytes = min_of(kCodeBytes, int64_t{depth} * kPanelColumns - begin);
      return copy_chunk_async(to, {panel.bytes + begin, 0, 0, static_cast<int>(bytes)});
    }
    const int64_t codes_of_group = group * kPanelColumns;
    const int64_t scales = begin / codes_of_group * kFloatScaleBytes;  // of the groups before
    const int64_t skipped = codes_of_group - begin % codes_of_group - kCodeBytes;
    copy_chunk_async(to,
                     {panel.bytes + begin + scales,
                      kCodeBytes,
                      skipped,
                      kCodeBytes + static_cast<int>(kFloatScaleBytes)});
  }
  template <int kTiles, typename Rows>
  REPRISE_DEVICE void multiply(float (&sums)[kTiles][4],
                               const Panel& /*panel*/,
                               Table /*table*/,
                               const char* weights,
                               const Rows& rows,
                               int chunk) const {
    multiply_at(sums, weights, weights + kCodeBytes, rows, chunk);
  }
  [[nodiscard]] REPRISE_DEVICE int most_stretch_bytes() const {
    const int64_t scales = has_group_scales ? kElementsOfStretch / kGroup * kFloatScaleBytes : 0;
    return static_cast<int>(kElementsOfStretch * kPanelColumns + scales);
  }
  [[nodiscard]] REPRISE_DEVICE StretchBytes stretch(const Panel& panel, int chunk) const {
    const int first = chunk * kChunk.elements;
    const int64_t elements = min_of(kElementsOfStretch, depth - first);
    const int64_t scales = has_group_scales ? kFloatScaleBytes : 0;  // of each group
    return {panel.bytes + first * kPanelColumns + first / kGroup * scales,
            static_cast<int>(elements * kPanelColumns + elements / kGroup * scales)};
  }
  template <typename Rows>
  REPRISE_DEVICE void multiply_in_stretch(float (&sums)[1][4],
                                          const Panel& /*panel*/,
                                          Table /*table*/,
                                          const char* stretch,
                                          const Rows& rows,
                                          int place,
                                          int chunk) const {
    const int first = place * kChunk.elements;
    const int scales = has_group_scales ? first / kGroup * static_cast<int>(kFloatScaleBytes) : 0;
    const char* codes = stretch + first * static_cast<int>(kPanelColumns) + scales;
    multiply_at(sums,
                codes,
                codes + (kGroup - first % kGroup) * static_cast<int>(kPanelColumns),
                rows,
                chunk);
  }
  [[nodiscard]] static REPRISE_DEVICE float row_factor(int64_t /*row*/) { return 1; }
  [[nodiscard]] REPRISE_DEVICE float finish(float sum, const Panel& panel, float /*factor*/) const {
    return has_group_scales ? sum : sum * panel.entry;
  }

 private:
  static constexpr int64_t kElementsOfStretch = int64_t{kStretchChunks} * kChunk.elements;
  static constexpr int kGroup =
      static_cast<int>(float_panel_group(PanelFormat::f8e4m3_g128));  // if groups have scales
  /// `scales`: those of the group, if groups have any.
  template <int kTiles, typename Rows>
  REPRISE_DEVICE void multiply_at(float (&sums)[kTiles][4],
                                  const char* codes,
                                  const char* scales,
                                  const Rows& rows,
                                  int chunk) const {
    if (has_group_scales) {
      float group_sums[kTiles][4] = {};
      multiply_codes_of(group_sums, codes, rows, chunk);
      add_scaled(sums, group_sums, float_pair(scales, lane_index() / 4));
    } else {
      multiply_codes_of(sums, codes, rows, chunk);
    }
  }
  template <int kTiles, typename Rows>
  REPRISE_DEVICE void multiply_codes_of(float (&sums)[kTiles][4],
                                        const char* weights,
                                        const Rows& rows,
                                        int chunk) const {
    if (is_e5m2) {
      multiply_codes_as<true>(sums, weights, rows, chunk);
    } else {
      multiply_codes_as<false>(sums, weights, rows, chunk);
    }
  }
  template <bool kIsE5M2, int kTiles, typename Rows>
  REPRISE_DEVICE void multiply_codes_as(float (&sums)[kTiles][4],
                                        const char* weights,
                                        const Rows& rows,
                                        int chunk) const {
    constexpr int kStep = 32;  // elements: the depth of a load of a fragment of rows
    const int left = depth - chunk * kChunk.elements;
    const int pair = lane_index() / 4;
    const int member = lane_index() % 4;
    REPRISE_UNROLL
    for (int step = 0; step < kChunk.elements / kStep; ++step) {
      if (step * kStep >= left) break;
      uint32_t words[kTiles][4];
      REPRISE_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        load_fragments(words[t],
                       shared_address(rows.row(t * kFragmentRows + lane_index() % 8) +
                                      step * kStep * 2 + lane_index() / 8 * 16));
      }
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        // Two elements of sixteen columns take 32 bytes; a lane has those of two columns.
        const char* codes = weights + (step * 16 + half * 8 + member) * 32 + pair * 4;
        uint32_t columns[4];
        widen_columns<T, kIsE5M2>(load_word(codes), columns[0], columns[1]);
        widen_columns<T, kIsE5M2>(load_word(codes + 4 * 32), columns[2], columns[3]);
        REPRISE_UNROLL
        for (int t = 0; t < kTiles; ++t) {
          multiply_fragments<T>(sums[t], columns, {words[t][2 * half], words[t][2 * half + 1]});
        }
      }
    }
  }
};

/// Codes of four bits with a table in each panel. T has 16 bits.
template <typename T>
struct Float4Form : FloatWeight {
  static constexpr ChunkSizes kChunk = kFloat4Chunk;  // a group
  static constexpr int kPieceBytes = 16;
  static constexpr int kStretchChunks = 2 * kLinearWarps;  // chunks are short
  static constexpr bool kIsOneStretch = true;
  static constexpr bool kHasPairs = false;
  static constexpr int kExpertParts = 1;
  static constexpr int kCodeBytes = kChunk.elements * static_cast<int>(kPanelColumns) / 2;
  using Panel = SimplePanel;
  using Table = NumberTable;
  using Sum = float;

  REPRISE_DEVICE explicit Float4Form(const PackedLinearArguments& a) : FloatWeight(a, sizeof(T)) {}
  [[nodiscard]] REPRISE_DEVICE int64_t num_panels() const { return panels; }
  [[nodiscard]] REPRISE_DEVICE Panel panel(int64_t index) const {
    constexpr int64_t kTableBytes = 16 * sizeof(float);
    return simple_panel(weight, index, panel_bytes, panel_bytes - kTableBytes);
  }
  [[nodiscard]] static REPRISE_DEVICE Table table(const Panel& panel) {
    return make_number_table<T>(panel.entry);
  }
  static REPRISE_DEVICE void copy(char* to, const Panel& panel, int chunk) {
    constexpr int kBytes = kChunk.weight_bytes;
    copy_chunk_async(to, {panel.bytes + int64_t{chunk} * kBytes, 0, 0, kBytes});
  }
  [[nodiscard]] static REPRISE_DEVICE int most_stretch_bytes() {
    return kStretchChunks * kChunk.weight_bytes;
  }
  [[nodiscard]] REPRISE_DEVICE StretchBytes stretch(const Panel& panel, int chunk) const {
    const auto chunks = static_cast<int>(min_of(kStretchChunks, depth / kChunk.elements - chunk));
    return {panel.bytes + int64_t{chunk} * kChunk.weight_bytes, chunks * kChunk.weight_bytes};
  }
  template <typename Rows>
  REPRISE_DEVICE void multiply_in_stretch(float (&sums)[1][4],
                                          const Panel& panel,
                                          const Table& table,
                                          const char* stretch,
                                          const Rows& rows,
                                          int place,
                                          int chunk) const {
    multiply(sums, panel, table, stretch + place * kChunk.weight_bytes, rows, chunk);
  }
  template <int kTiles, typename Rows>
  REPRISE_DEVICE void multiply(float (&sums)[kTiles][4],
                               const Panel& /*panel*/,
                               const Table& table,
                               const char* weights,
                               const Rows& rows,
                               int /*chunk*/) const {
    constexpr int kStep = 32;  // elements: the codes of four lanes
    const int pair = lane_index() / 4;
    const int member = lane_index() % 4;
    float group_sums[kTiles][4] = {};
    REPRISE_UNROLL
    for (int step = 0; step < kChunk.elements / kStep; ++step) {
      // Eight neighbours of sixteen columns take 64 bytes; a lane has those of two columns.
      const Words2 codes = load_two_words(weights + (step * 4 + member) * 64 + pair * 8);
      uint32_t first[4];
      uint32_t second[4];
      look_up_numbers(table, codes.word[0], first);
      look_up_numbers(table, codes.word[1], second);
      REPRISE_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        // The order of the depth differs from memory, but is the same for both operands.
        const Words4 words =
            load_words(rows.row(t * kFragmentRows + pair) + step * kStep * 2 + member * 16);
        REPRISE_UNROLL
        for (int i = 0; i < 4; i += 2) {
          multiply_fragments<T>(group_sums[t],
                                {first[i], second[i], first[i + 1], second[i + 1]},
                                {words.word[i], words.word[i + 1]});
        }
      }
    }
    add_scaled(sums, group_sums, float_pair(weights + kCodeBytes, pair));
  }
  [[nodiscard]] static REPRISE_DEVICE float row_factor(int64_t /*row*/) { return 1; }
  [[nodiscard]] static REPRISE_DEVICE float finish(float sum, const Panel&, float /*factor*/) {
    return sum;
  }
};

}  // namespace reprise::kernels::cuda
