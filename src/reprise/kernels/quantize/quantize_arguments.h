#pragma once

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

/// Rows that are quantised with a scale of their own. The kernel determines what a row is.
struct alignas(16) QuantizeRowsArguments {
  // Rows in x_layout, which are quantised, or normed first, or contain gate and up.
  const void* x;
  const void* residual;  // fused_add_rms_norm_quant: rows in residual_layout
  const void* weight;    // norms: [width]
  void* sum;             // fused_add_rms_norm_quant: [rows, width], dense
  void* q;               // [rows, width], dense
  float* scales;         // [rows]
  RowLayout x_layout;
  RowLayout residual_layout;
  RowTiles tiles;  // of q
  float epsilon;   // norms
};

struct alignas(16) QuantizeStaticArguments {
  const void* x;  // rows in x_layout
  const float* scale;
  void* q;  // [rows, width], dense
  RowLayout x_layout;
  RowTiles tiles;
};

/// A row with smaller magnitudes is quantised as if its largest magnitude were this.
inline constexpr float kSmallestQuantizedMagnitude = 1e-10F;

}  // namespace reprise::kernels
