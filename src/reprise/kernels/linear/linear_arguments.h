#pragma once

#include <cstdint>

namespace reprise::kernels {

/// The elements of a weight: those of x or int8, or smaller floats (tensor/float_panels.h).
enum class WeightElements : uint8_t { as_given, f8e4m3, f8e5m2, f4 };

/// out = x @ weight^T + bias. Weight, bias and out are dense.
struct alignas(16) LinearArguments {
  const void* x;  // [rows, depth], rows x_stride apart
  // [columns, depth], row-major or in panels (column_panels.h, int8_panels.h, float_panels.h)
  const void* weight;
  const void* bias;         // [columns], or nullptr
  void* out;                // [rows, columns]
  const int32_t* num_rows;  // rows to compute, read when the kernel runs; nullptr = all
  int64_t x_stride;         // elements
  int64_t rows;
  int64_t columns;
  int64_t depth;
  int32_t rows_per_block;     // at most kMaxLinearTileRows
  int32_t columns_per_block;  // at most kMaxLinearTileColumns; whole panels of a weight in panels
  bool is_in_panels;
  WeightElements elements = WeightElements::as_given;
  const float* x_scale = nullptr;  // [rows], for a weight in int8 panels
  // For a weight of smaller floats: the elements that share a scale, and the bytes of a column.
  int64_t group = 0;
  int64_t column_bytes = 0;
};

inline constexpr int kMaxLinearTileRows = 64;
inline constexpr int kMaxLinearTileColumns = 64;

}  // namespace reprise::kernels
