#pragma once

#include "reprise/kernels/cuda/packed_arguments.h"
#include "reprise/kernels/cuda/packed_codes.cuh"
#include "reprise/kernels/cuda/row_kernels.cuh"
#include "reprise/kernels/embedding/embedding_arguments.h"
#include "reprise/kernels/quantize_blocks/quantize_blocks_arguments.h"

// Rows that are quantised in blocks, and rows of packed tables, with the arguments of the CPU
// kernels of the same names.
namespace reprise::kernels::cuda {

/// To the nearest integer, of equal distances to the even one. \pre |x| < 2^22
inline constexpr float kNearestShift = 12582912.0F;  // 1.5 * 2^23: a sum has no bits for fractions
REPRISE_DEVICE float nearest(float x) { return (x + kNearestShift) - kNearestShift; }

/// The codes of eight numbers, which are nearest to values * inverse, and their sum.
struct EightCodes {
  uint32_t words[2] = {};
  int32_t sum = 0;

  /// \pre every product is a number of at most 127.5
  REPRISE_DEVICE void find(const float (&values)[kColumns], float inverse) {
    REPRISE_UNROLL
    for (int i = 0; i < kColumns; i += 4) {
      // The low bits of a sum with the shift are the code.
      uint32_t bits[4];
      REPRISE_UNROLL
      for (int j = 0; j < 4; ++j) bits[j] = bits_of(values[i + j] * inverse + kNearestShift);
      const uint32_t low = permute_bytes(bits[0], bits[1], 0x0040);
      const uint32_t high = permute_bytes(bits[2], bits[3], 0x0040);
      words[i / 4] = permute_bytes(low, high, 0x5410);
      sum = add_codes(words[i / 4], sum);
    }
  }
  /// For values that are not finite too: they get the code 0, and the scale is not finite either.
  REPRISE_DEVICE void find_any(const float (&values)[kColumns], float inverse) {
    for (int i = 0; i < kColumns; ++i) {
      float code = nearest(values[i] * inverse);
      code = code >= -127.0F ? code : (code == code ? -127.0F : 0.0F);
      code = code <= 127.0F ? code : 127.0F;
      const auto number = static_cast<int32_t>(code);
      sum += number;
      words[i / 4] |= (static_cast<uint32_t>(number) & 0xffU) << (i % 4 * 8);
    }
  }
};

/// Four lanes quantise a block of 32 elements together; a lane has eight. All lanes of a warp must
/// call this. `is_there`: whether the lanes have a block.
REPRISE_DEVICE void quantize_eight(const float (&values)[kColumns],
                                   ActivationBlock* out,
                                   bool is_there) {
  const int member = lane_index() % 4;
  uint32_t largest = 0;
  for (float value : values) {
    const uint32_t magnitude = bits_of(value) & 0x7fffffffU;
    largest = magnitude > largest ? magnitude : largest;
  }
  for (int mask = 1; mask < 4; mask *= 2) {
    const uint32_t other = bits_of(shuffle_xor(float_of(largest), mask));
    largest = other > largest ? other : largest;
  }
  const float magnitude = float_of(largest);
  const float inverse = magnitude > 0 ? 127.0F / magnitude : 0.0F;
  constexpr uint32_t kInfinity = 0x7f800000;
  EightCodes codes;
  if (largest < kInfinity && bits_of(inverse) < kInfinity) {
    codes.find(values, inverse);
  } else {
    codes.find_any(values, inverse);
  }
  const int32_t sum = codes.sum + shuffle_from(codes.sum, lane_index() ^ 1);
  if (!is_there) return;
  auto* words = reinterpret_cast<uint32_t*>(out->codes) + 2 * member;
  words[0] = codes.words[0];
  words[1] = codes.words[1];
  if (member == 0) out->scale = magnitude / 127.0F;
  if (member % 2 == 0) out->sums[member / 2] = static_cast<int16_t>(sum);
}

/// Quantises a row, by all threads of a team. `values_of(column, values)` gives eight elements.
template <typename ValuesOf>
REPRISE_DEVICE void quantize_row(int64_t width,
                                 ActivationBlock* out,
                                 const Team& team,
                                 const ValuesOf& values_of) {
  const int64_t step = int64_t{team.size} * kColumns;
  // Lanes of a warp stay together, because they exchange values.
  const int64_t warp_first = int64_t{team.rank / kWarpSize * kWarpSize} * kColumns;
  for (int64_t begin = warp_first; begin < width; begin += step) {
    const int64_t column = begin + int64_t{lane_index()} * kColumns;
    const bool is_there = column < width;
    float values[kColumns] = {};
    if (is_there) values_of(column, values);
    quantize_eight(values, out + column / kPanelBlock, is_there);
  }
}

template <typename T>
REPRISE_DEVICE void quantize_blocks(const QuantizeBlocksArguments& a) {
  const int64_t width = a.tiles.width;
  for_each_row(row_tile(a.tiles, block_index()), width, [&](int64_t row, const Team& team) {
    const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
    ActivationBlock* out = a.out + row * (width / kPanelBlock);
    quantize_row(width, out, team, [&](int64_t column, float (&values)[kColumns]) {
      load_columns(x + column, kColumns, values);
    });
  });
}

template <typename T>
REPRISE_DEVICE void rms_norm_quantize_blocks(const QuantizeBlocksArguments& a) {
  const int64_t width = a.tiles.width;
  for_each_row(row_tile(a.tiles, block_index()), width, [&](int64_t row, const Team& team) {
    const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
    const T* weight = static_cast<const T*>(a.weight);
    ActivationBlock* out = a.out + row * (width / kPanelBlock);
    const float scale = rms_norm_scale(x, width, a.epsilon, team);
    quantize_row(width, out, team, [&](int64_t column, float (&values)[kColumns]) {
      float weights[kColumns];
      load_columns(x + column, kColumns, values);
      load_columns(weight + column, kColumns, weights);
      for (int i = 0; i < kColumns; ++i) values[i] = rounded<T>(values[i] * scale * weights[i]);
    });
  });
}

/// Writes groups `member` and 4 + `member` of a block of one column.
template <typename T, PanelFormat kFormat>
REPRISE_DEVICE void dequantize_groups(
    const char* head, const char* block, int column, int member, T* out) {
  constexpr CodeTraits kTraits = code_traits(kFormat);
  const BlockCodes codes = load_block<kFormat>(head, block, column / 2, member);
  const int side = column % 2;
  for (int group = 0; group < 2; ++group) {
    const int half = kTraits.has_halves ? group : 0;
    const float scale = side == 0 ? codes.scale[half][0] : codes.scale[half][1];
    const float least = side == 0 ? codes.least[half][0] : codes.least[half][1];
    const uint32_t word = side == 0 ? codes.codes[2 * group] : codes.codes[2 * group + 1];
    for (int i = 0; i < 4; ++i) {
      const auto code = static_cast<float>(static_cast<int8_t>(word >> (8 * i)));
      put(out + (4 * group + member) * 4 + i, multiply_add(scale, code, least));
    }
  }
}

template <typename T>
REPRISE_DEVICE void block_embedding(const EmbeddingArguments& a) {
  const RowTile tile = row_tile(a.tiles, block_index());
  for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
    T* out = static_cast<T*>(a.out) + row * a.tiles.width;
    const int64_t id = a.ids[row];
    if (id < 0 || id >= a.table_rows) {
      for (int64_t i = thread_index(); i < a.tiles.width; i += num_threads()) put(out + i, 0.0F);
      continue;
    }
    const WeightPanel panel = find_panel_of_column(a.table, id);
    const int column = static_cast<int>(id - panel.column);
    // Four threads have a block.
    for (int i = thread_index(); i < static_cast<int>(a.tiles.width / 8); i += num_threads()) {
      const int block = i / 4;
      const char* head = panel.bytes + block / panel.super_blocks * panel.super_bytes();
      const char* codes = head + panel.head_bytes + block % panel.super_blocks * panel.block_bytes;
      with_format(panel.format, [&](auto format) {
        dequantize_groups<T, decltype(format)::kFormat>(
            head, codes, column, i % 4, out + block * kPanelBlock);
      });
    }
  }
}

/// A block of the grid has a panel. Its warps expand one block of 32 elements after the other, all
/// columns of it at once.
template <typename T>
REPRISE_DEVICE void expand_panels(const ExpandPanelsArguments& a) {
  const auto* header = static_cast<const PanelHeader*>(a.weight);
  if (block_index() >= header->panels) return;
  const WeightPanel panel = find_panel(a.weight, block_index());
  const int pair = lane_index() / 4;
  const int member = lane_index() % 4;
  const auto blocks = static_cast<int>(header->depth / kPanelBlock);
  for (int b = warp_index(); b < blocks; b += num_warps()) {
    const char* head = panel.bytes + b / panel.super_blocks * panel.super_bytes();
    const char* codes = head + panel.head_bytes + b % panel.super_blocks * panel.block_bytes;
    REPRISE_UNROLL
    for (int side = 0; side < 2; ++side) {
      const int column = 2 * pair + side;
      const int64_t row = panel.column + column - a.first;
      if (column >= panel.columns || row < 0 || row >= a.count) continue;
      T* out = static_cast<T*>(a.out) + row * header->depth + int64_t{b} * kPanelBlock;
      with_format(panel.format, [&](auto format) {
        dequantize_groups<T, decltype(format)::kFormat>(head, codes, column, member, out);
      });
    }
  }
}

template <typename T>
REPRISE_DEVICE void dequantize_rows(const DequantizeRowsArguments& a) {
  const int64_t count = a.rows * a.blocks * 4;  // a thread has eight elements
  const int64_t step = int64_t{grid_size()} * num_threads();
  for (int64_t i = int64_t{block_index()} * num_threads() + thread_index(); i < count; i += step) {
    const auto& block = static_cast<const ActivationBlock*>(a.x)[i / 4];
    const auto member = static_cast<int>(i % 4);
    float values[kColumns];
    for (int j = 0; j < kColumns; ++j) {
      values[j] = block.scale * static_cast<float>(block.codes[kColumns * member + j]);
    }
    store_columns(static_cast<T*>(a.out) + i * kColumns, kColumns, values);
  }
}

}  // namespace reprise::kernels::cuda
