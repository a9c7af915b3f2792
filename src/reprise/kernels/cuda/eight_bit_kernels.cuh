#pragma once

#include "reprise/kernels/cuda/eight_bit_arguments.h"
#include "reprise/kernels/cuda/packed_linear_kernels.cuh"
#include "reprise/kernels/cuda/quantize_kernels.cuh"
#include "reprise/tensor/float_panels.h"
#include "reprise/tensor/int8_panels.h"

// Products of codes of eight bits by the library (eight_bit_product.h): what comes before and after
// them.
namespace reprise::kernels::cuda {

/// The scale of a column for the group with this index.
REPRISE_DEVICE float scale_of_codes(const PanelCodesArguments& a,
                                    const char* panel,
                                    int column,
                                    int64_t index) {
  const int64_t offset = a.codec == PanelFormat::int8_rows
                             ? int8_scale_offset(column, a.depth)
                             : float_scale_offset(a.codec, a.group, index, column);
  return float_of(load_word(panel + offset));
}

/// Half a warp copies 32 elements of all columns at once, so that a lane writes whole sectors of
/// memory. In both families four elements of all columns take 64 bytes: four bytes of each column,
/// or two pairs.
template <bool kIsInt8>
REPRISE_DEVICE void copy_codes(const PanelCodesArguments& a, const char* panel, char* rows) {
  constexpr int kStep = 32;
  constexpr int kFour = 4 * static_cast<int>(kPanelColumns);
  const int column = lane_index() % static_cast<int>(kPanelColumns);
  const int side = lane_index() / static_cast<int>(kPanelColumns);
  const auto depth = static_cast<uint32_t>(a.depth);
  const auto group = static_cast<uint32_t>(a.group);
  char* row = rows + column * a.depth;
  for (uint32_t k = (2 * warp_index() + side) * kStep; k < depth; k += 2 * num_warps() * kStep) {
    const char* codes = panel + k * kPanelColumns + column * (kIsInt8 ? 4 : 2);
    if constexpr (!kIsInt8) codes += k / group * kFloatScaleBytes;  // of the groups before
    Words4 words[2];
    REPRISE_UNROLL
    for (int i = 0; i < kStep / 4; ++i) {
      uint32_t& word = words[i / 4].word[i % 4];
      if constexpr (kIsInt8) {
        word = load_word(codes + i * kFour);
      } else {
        word = load_half_word(codes + i * kFour) | load_half_word(codes + i * kFour + kFour / 2)
                                                       << 16;
      }
    }
    store_words(row + k, words[0]);
    store_words(row + k + kStep / 2, words[1]);
  }
}

REPRISE_DEVICE void panel_codes(const PanelCodesArguments& a) {
  const int64_t first_column = int64_t{block_index()} * kPanelColumns;
  const char* panel =
      static_cast<const char*>(a.weight) + (a.first_panel + block_index()) * a.panel_bytes;
  char* rows = static_cast<char*>(a.codes) + first_column * a.depth;
  if (a.codec == PanelFormat::int8_rows) {
    copy_codes<true>(a, panel, rows);
  } else {
    copy_codes<false>(a, panel, rows);
  }
  const auto scales = static_cast<uint32_t>(a.depth / a.group * kPanelColumns);
  for (uint32_t i = thread_index(); i < scales; i += num_threads()) {
    const auto column = static_cast<int>(i % kPanelColumns);
    const int64_t index = i / kPanelColumns;
    a.scales[index * a.columns + first_column + column] = scale_of_codes(a, panel, column, index);
  }
}

/// Half a warp quantises a group, with the formula of quantize.h for a row.
template <typename T>
REPRISE_DEVICE void quantize_groups(const QuantizeGroupsArguments& a) {
  const auto groups_of_row = static_cast<uint32_t>(a.depth / kActivationGroup);
  const auto total = static_cast<uint32_t>(a.padded_rows) * groups_of_row;
  const int lane = thread_index() % 16;
  // Both halves of a warp take part in each exchange of its lanes.
  for (uint32_t first = block_index() * kGroupsOfBlock; first < total;
       first += grid_size() * kGroupsOfBlock) {
    const uint32_t item = first + static_cast<uint32_t>(thread_index()) / 16;
    const int64_t row = item / groups_of_row;
    const int64_t group = item % groups_of_row;
    const int64_t k = group * kActivationGroup + lane * kColumns;
    float values[kColumns] = {};
    if (item < total && row < a.rows) {
      load_columns(static_cast<const T*>(a.x) + row * a.x_stride + k, kColumns, values);
    }
    // The bits of magnitudes have the order of the magnitudes, and a NaN is larger than all.
    uint32_t largest = 0;
    REPRISE_UNROLL
    for (const float value : values) {
      const uint32_t magnitude = bits_of(value) & 0x7fffffffU;
      largest = magnitude > largest ? magnitude : largest;
    }
    REPRISE_UNROLL
    for (int mask = 1; mask < 16; mask *= 2) {
      const auto other = static_cast<uint32_t>(shuffle_xor(uint64_t{largest}, mask));
      largest = other > largest ? other : largest;
    }
    if (item >= total) continue;
    auto* q = reinterpret_cast<Float8E4M3*>(a.q) + row * a.depth + k;
    const float scale = scale_of_largest(float_of(largest), q);
    store_codes(q, kColumns, values, scale);
    if (lane == 0) a.scales[group * a.padded_rows + row] = scale;
  }
}

/// Eight sums of a row as products. The order of the multiplications is that of Int8Form.
template <typename T, typename Out>
REPRISE_DEVICE void finish_columns(const FinishSumsArguments& a, int64_t row, int64_t column) {
  const int64_t at = row * a.columns + column;
  float values[kColumns];
  if (a.has_integers) {
    REPRISE_UNROLL
    for (int i = 0; i < kColumns; i += 4) {
      const Words4 sums = load_words(static_cast<const int32_t*>(a.sums) + at + i);
      REPRISE_UNROLL
      for (int j = 0; j < 4; ++j) {
        values[i + j] = static_cast<float>(static_cast<int32_t>(sums.word[j]));
      }
    }
  } else {
    load_columns(static_cast<const float*>(a.sums) + at, kColumns, values);
  }
  if (a.x_scale != nullptr) {
    const float x_scale = a.x_scale[row * a.x_scale_stride];
    float scales[kColumns];
    load_columns(a.scales + column, kColumns, scales);
    for (int i = 0; i < kColumns; ++i) values[i] = values[i] * x_scale * scales[i];
  }
  if (a.bias != nullptr) {
    float bias[kColumns];
    load_columns(static_cast<const T*>(a.bias) + column, kColumns, bias);
    for (int i = 0; i < kColumns; ++i) values[i] += bias[i];
  }
  store_columns(static_cast<Out*>(a.out) + row * a.out_stride + column, kColumns, values);
}

/// A block of the grid has a row.
REPRISE_DEVICE void finish_sums(const FinishSumsArguments& a) {
  const int64_t row = block_index();
  with_type(a.type, [&](auto type) {
    using T = decltype(type);
    for (int64_t i = int64_t{thread_index()} * kColumns; i < a.columns;
         i += int64_t{num_threads()} * kColumns) {
      if (a.out_type != a.type) {
        finish_columns<T, float>(a, row, i);
      } else {
        finish_columns<T, T>(a, row, i);
      }
    }
  });
}

}  // namespace reprise::kernels::cuda
