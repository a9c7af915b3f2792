#pragma once

#include "reprise/kernels/cuda/int8_form.cuh"
#include "reprise/kernels/cuda/packed_linear_kernels.cuh"

// Products of int8 for many rows: codes become numbers of the model's type, which are exact, the
// library multiplies them, and the sums are scaled as those of the project's own kernels.
namespace reprise::kernels::cuda {

/// A block of the grid has a panel. Half a warp expands sixteen elements of all columns at once.
template <typename T>
REPRISE_DEVICE void expand_int8(const ExpandFloatsArguments& a) {
  constexpr int kStep = 2 * kColumns;
  const int column = lane_index() % static_cast<int>(kPanelColumns);
  const char* codes = static_cast<const char*>(a.weight) +
                      (a.first_panel + block_index()) * a.panel_bytes + column * 4;
  T* out = static_cast<T*>(a.out) + (int64_t{block_index()} * kPanelColumns + column) * a.depth;
  const int side = lane_index() / static_cast<int>(kPanelColumns);
  for (int64_t k = (2 * warp_index() + side) * kStep; k < a.depth; k += 2 * num_warps() * kStep) {
    for (int64_t i = k; i < k + kStep; i += kColumns) {
      float values[kColumns];
      REPRISE_UNROLL
      for (int j = 0; j < kColumns; j += 4) {
        const uint32_t four = load_word(codes + (i + j) / 4 * 4 * kPanelColumns);
        REPRISE_UNROLL
        for (int b = 0; b < 4; ++b) {
          values[j + b] = static_cast<float>(static_cast<int8_t>(four >> (8 * b)));
        }
      }
      store_columns(out + i, kColumns, values);
    }
  }
}

template <typename T>
REPRISE_DEVICE void int8_elements(const Int8ElementsArguments& a) {
  const int64_t step = int64_t{grid_size()} * num_threads() * kColumns;
  for (int64_t i = (int64_t{block_index()} * num_threads() + thread_index()) * kColumns;
       i < a.count;
       i += step) {
    float values[kColumns];
    for (int j = 0; j < kColumns; ++j) values[j] = static_cast<float>(a.x[i + j]);
    store_columns(static_cast<T*>(a.out) + i, kColumns, values);
  }
}

/// A block of the grid has a row.
REPRISE_DEVICE void scale_int8_sums(const ScaleInt8SumsArguments& a) {
  const int64_t row = block_index();
  const float x_scale = a.x_scale[row * a.x_scale_stride];
  const auto* weight = static_cast<const char*>(a.weight);
  for (int64_t i = thread_index(); i < a.columns; i += num_threads()) {
    const int64_t output = a.first + i;
    const float scale = float_of(load_word(weight + int8_scale_offset(output, a.depth)));
    float value = a.sums[row * a.columns + i] * x_scale * scale;
    with_type(a.type, [&](auto type) {
      using T = decltype(type);
      if (a.bias != nullptr) value += as_float(static_cast<const T*>(a.bias)[output]);
      if (a.out_type != a.type) {
        put(static_cast<float*>(a.out) + row * a.out_stride + output, value);
      } else {
        put(static_cast<T*>(a.out) + row * a.out_stride + output, value);
      }
    });
  }
}

}  // namespace reprise::kernels::cuda
