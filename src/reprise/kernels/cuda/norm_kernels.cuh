#pragma once

#include "reprise/kernels/cuda/row_kernels.cuh"
#include "reprise/kernels/group_norm/group_norm_arguments.h"
#include "reprise/kernels/layer_norm/layer_norm_arguments.h"

// Norms other than rms_norm.
namespace reprise::kernels::cuda {

template <typename T>
REPRISE_DEVICE void gemma_rms_norm(const RmsNormArguments& a) {
  const int64_t width = a.tiles.width;
  for_each_row(row_tile(a.tiles, block_index()), width, [&](int64_t row, const Team& team) {
    const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
    const float scale = rms_norm_scale(x, width, a.epsilon, team);
    weigh_row(x,
              static_cast<const T*>(a.weight),
              static_cast<T*>(a.out) + row * width,
              width,
              team,
              [&](float value, float weight) { return value * scale * (1.0F + weight); });
  });
}

/// The mean of term(element) over a row, for all threads of its team.
template <typename T, typename Term>
REPRISE_DEVICE float mean_of_row(const T* x, int64_t width, const Team& team, const Term& term) {
  float sum = 0;
  for_each_columns(team, 0, width, [&](int64_t column, int64_t count) {
    float values[kColumns];
    load_columns(x + column, count, values);
    for (int i = 0; i < kColumns; ++i) sum += i < count ? term(values[i]) : 0.0F;
  });
  return team.sum(sum) / static_cast<float>(width);
}

/// `bias` may be a null pointer.
template <typename T>
REPRISE_DEVICE void layer_norm_row(const T* x,
                                   const T* weight,
                                   const T* bias,
                                   T* out,
                                   int64_t width,
                                   float epsilon,
                                   const Team& team) {
  const float mean = mean_of_row(x, width, team, [](float value) { return value; });
  const float variance =
      mean_of_row(x, width, team, [&](float value) { return (value - mean) * (value - mean); });
  const float scale = 1.0F / square_root(variance + epsilon);
  for_each_columns(team, 0, width, [&](int64_t column, int64_t count) {
    float values[kColumns];
    float factors[kColumns];
    float shifts[kColumns] = {};
    load_columns(x + column, count, values);
    load_columns(weight + column, count, factors);
    if (bias != nullptr) load_columns(bias + column, count, shifts);
    for (int i = 0; i < kColumns; ++i) {
      values[i] = (values[i] - mean) * scale * factors[i] + shifts[i];
    }
    store_columns(out + column, count, values);
  });
}

template <typename T>
REPRISE_DEVICE void layer_norm(const LayerNormArguments& a) {
  const int64_t width = a.tiles.width;
  for_each_row(row_tile(a.tiles, block_index()), width, [&](int64_t row, const Team& team) {
    layer_norm_row(static_cast<const T*>(a.x) + row_offset(a.x_layout, row),
                   static_cast<const T*>(a.weight),
                   static_cast<const T*>(a.bias),
                   static_cast<T*>(a.out) + row * width,
                   width,
                   a.epsilon,
                   team);
  });
}

// A loop for each function: with one loop for both, the code for sm_80 spills registers.
template <typename T>
REPRISE_DEVICE void group_norm(const GroupNormArguments& a) {
  const int64_t width = a.tiles.width;
  for_each_row(row_tile(a.tiles, block_index()), width, [&](int64_t row, const Team& team) {
    const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
    const T* weight = static_cast<const T*>(a.weight);
    const T* bias = nullptr;
    T* out = static_cast<T*>(a.out) + row * width;
    if (a.function == OpFunction::layer_norm) {
      for (int64_t i = 0; i < width; i += a.group_size) {
        layer_norm_row(x + i, weight + i, bias, out + i, a.group_size, a.epsilon, team);
      }
      return;
    }
    for (int64_t i = 0; i < width; i += a.group_size) {
      const float scale = rms_norm_scale(x + i, a.group_size, a.epsilon, team);
      scale_row(x + i, weight + i, out + i, a.group_size, scale, team);
    }
  });
}

}  // namespace reprise::kernels::cuda
