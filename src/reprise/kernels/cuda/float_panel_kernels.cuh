#pragma once

#include "reprise/kernels/cuda/float_form.cuh"
#include "reprise/kernels/cuda/linear_kernels.cuh"

// Weights of smaller floats without the tensor cores: products in float32, of rows in any place,
// and weights that become numbers.
namespace reprise::kernels::cuda {

/// A column of a panel of smaller floats.
struct FloatColumn {
  const char* panel;
  int64_t panel_bytes;
  int64_t group;
  int column;  // of the panel
  PanelFormat codec;

  /// Eight neighbouring elements without their scale.
  REPRISE_DEVICE void load(int64_t k, float (&values)[kColumns]) const {
    const char* codes = panel + float_code_offset(codec, group, column, k);
    if (codec == PanelFormat::f4_g64) {
      const char* table = panel + panel_bytes - 16 * sizeof(float);
      const uint32_t word = load_word(codes);
      REPRISE_UNROLL
      for (int i = 0; i < kColumns; ++i) {
        values[i] = float_of(load_word(table + ((word >> (4 * i)) & 15U) * sizeof(float)));
      }
      return;
    }
    const bool is_e5m2 = codec == PanelFormat::f8e5m2_rows || codec == PanelFormat::f8e5m2_g128;
    const CacheType type = is_e5m2 ? CacheType::f8e5m2 : CacheType::f8e4m3;
    REPRISE_UNROLL
    for (int i = 0; i < kColumns; i += 2) {
      const uint32_t two = load_half_word(codes + i / 2 * 2 * kPanelColumns);
      values[i] = value_of_code(type, static_cast<uint8_t>(two));
      values[i + 1] = value_of_code(type, static_cast<uint8_t>(two >> 8));
    }
  }
  [[nodiscard]] REPRISE_DEVICE float scale(int64_t k) const {
    return float_of(load_word(panel + float_scale_offset(codec, group, k / group, column)));
  }
};

/// The product of a row with a column, for the calling warp. The order of the sum depends only on
/// the depth.
template <typename T>
REPRISE_DEVICE float float_panel_dot(const T* x, const FloatColumn& column, int64_t depth) {
  float sum = 0;
  for_each_columns({lane_index(), kWarpSize}, 0, depth, [&](int64_t k, int64_t count) {
    float left[kColumns];
    float right[kColumns];
    load_columns(x + k, count, left);
    column.load(k, right);
    float part = 0;
    for (int i = 0; i < kColumns; ++i) part = multiply_add(left[i], right[i], part);
    sum = multiply_add(column.scale(k), part, sum);
  });
  return warp_sum(sum);
}

/// A warp computes one column of kDotRows rows.
template <typename T, Epilogue kEpilogue>
REPRISE_DEVICE void float_panel_dots(const PackedLinearArguments& arguments) {
  constexpr int kParts = kEpilogue == Epilogue::silu_and_mul ? 2 : 1;
  const LinearArguments& a = arguments.of.product;
  const int64_t row_tiles = ceil_div(a.rows, kDotRows);
  const int64_t column = block_index() / row_tiles * kDotColumns + warp_index();
  const int64_t first_row = block_index() % row_tiles * kDotRows;
  if (column >= a.columns) return;
  const int64_t panel_bytes = a.column_bytes * kPanelColumns;
  const int64_t rows = min_of(kDotRows, row_limit(a) - first_row);
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = static_cast<const T*>(a.x) + (first_row + r) * a.x_stride;
    float sums[kParts];
    for (int part = 0; part < kParts; ++part) {
      const int64_t output = part * a.columns + column;
      const FloatColumn codes = {
          .panel = static_cast<const char*>(a.weight) + output / kPanelColumns * panel_bytes,
          .panel_bytes = panel_bytes,
          .group = a.group,
          .column = static_cast<int>(output % kPanelColumns),
          .codec = a.codec};
      sums[part] = float_panel_dot(x, codes, a.depth);
    }
    if (lane_index() != 0) continue;
    if constexpr (kEpilogue == Epilogue::none) {
      if (arguments.out != arguments.type) {
        store_product<T, float, kEpilogue>(arguments.of, first_row + r, column, sums);
        continue;
      }
    }
    store_product<T, T, kEpilogue>(arguments.of, first_row + r, column, sums);
  }
}

/// Products of experts: a warp computes one element of the result.
template <typename T>
REPRISE_DEVICE void float_expert_dots(const PackedExpertArguments& arguments) {
  const LinearArguments& a = arguments.linear.of.product;
  const int64_t tiles = ceil_div(a.columns, kDotColumns);
  const int64_t row = block_index() / tiles;
  const int64_t column = block_index() % tiles * kDotColumns + warp_index();
  if (column >= a.columns) return;
  const int64_t expert = arguments.experts[row];
  const int64_t output = expert * a.columns + column;
  float value = 0;
  if (expert >= 0) {
    const int64_t panel_bytes = a.column_bytes * kPanelColumns;
    const FloatColumn codes = {
        .panel = static_cast<const char*>(a.weight) + output / kPanelColumns * panel_bytes,
        .panel_bytes = panel_bytes,
        .group = a.group,
        .column = static_cast<int>(output % kPanelColumns),
        .codec = a.codec};
    const T* x = static_cast<const T*>(a.x) + row / arguments.rows_per_x * a.x_stride;
    value = float_panel_dot(x, codes, a.depth);
    if (a.bias != nullptr) value += as_float(static_cast<const T*>(a.bias)[output]);
  }
  if (lane_index() == 0) put(static_cast<T*>(a.out) + row * a.columns + column, value);
}

/// A block of the grid has a panel. Half a warp expands sixteen elements of all columns at once, so
/// that a lane writes whole sectors of memory.
template <typename T>
REPRISE_DEVICE void expand_floats(const ExpandFloatsArguments& a) {
  constexpr int kStep = 2 * kColumns;
  const int side = lane_index() / static_cast<int>(kPanelColumns);
  const FloatColumn column = {
      .panel = static_cast<const char*>(a.weight) + (a.first_panel + block_index()) * a.panel_bytes,
      .panel_bytes = a.panel_bytes,
      .group = a.group,
      .column = lane_index() % static_cast<int>(kPanelColumns),
      .codec = a.codec};
  T* out =
      static_cast<T*>(a.out) + (int64_t{block_index()} * kPanelColumns + column.column) * a.depth;
  for (int64_t k = (2 * warp_index() + side) * kStep; k < a.depth; k += 2 * num_warps() * kStep) {
    const float scale = column.scale(k);
    for (int64_t i = k; i < k + kStep; i += kColumns) {
      float values[kColumns];
      column.load(i, values);
      for (float& value : values) value *= scale;
      store_columns(out + i, kColumns, values);
    }
  }
}

}  // namespace reprise::kernels::cuda
