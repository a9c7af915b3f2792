#pragma once

#include <cstdint>

#include "reprise/kernels/cuda/packed_arguments.h"

namespace reprise::kernels::cuda {

/// Panels of codes of eight bits as rows of codes, from panel `first_panel` on, one for each block
/// of the grid.
struct alignas(16) PanelCodesArguments {
  const void* weight;
  void* codes;    // [columns, depth]
  float* scales;  // [depth / group, columns], or [columns] for one scale for the whole depth
  int64_t first_panel;
  int64_t columns;  // of this part of the weight
  int64_t depth;
  int64_t group;        // elements that share a scale
  int64_t panel_bytes;  // of all sixteen columns
  PanelFormat codec;    // int8_rows, f8e4m3_rows or f8e4m3_g128
};

/// Rows of elements as float8 E4M3 with a scale for each group of 128. `padded_rows` - `rows` rows
/// of zeros follow.
struct alignas(16) QuantizeGroupsArguments {
  const void* x;
  uint8_t* q;     // [padded_rows, depth]
  float* scales;  // [depth / 128, padded_rows]
  int64_t x_stride;
  int64_t rows;
  int64_t padded_rows;
  int64_t depth;
};
inline constexpr int64_t kActivationGroup = 128;
/// Groups that a block of 256 threads quantises at once.
inline constexpr uint32_t kGroupsOfBlock = 16;

/// out = sums * scale of the row * scale of the output + bias, for `columns` outputs.
struct alignas(16) FinishSumsArguments {
  const void* sums;      // int32 or float32 [rows, columns]
  const float* x_scale;  // nullptr: sums are scaled already
  const float* scales;   // [columns]
  const void* bias;      // [columns], or nullptr
  void* out;             // [rows, out_stride]
  int64_t x_scale_stride;
  int64_t columns;  // a multiple of eight
  int64_t out_stride;
  PackedType type;  // of the bias, and to which a product is rounded
  PackedType out_type;
  bool has_integers;
};

}  // namespace reprise::kernels::cuda
