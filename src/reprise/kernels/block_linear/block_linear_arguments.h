#pragma once

#include <cstdint>

#include "reprise/tensor/block_panels.h"

namespace reprise::kernels {

/// out = x @ weight^T + bias over quantised rows and a packed weight. Bias and out have the type of
/// the kernel.
struct alignas(16) BlockLinearArguments {
  const ActivationBlock* x;  // [rows, blocks]
  const uint8_t* weight;     // panels
  const void* bias;          // [columns], or nullptr
  void* out;                 // [rows, columns]
  const int32_t* num_rows;   // rows to compute, read when the kernel runs; nullptr = all
  int64_t rows;
  int64_t columns;  // a multiple of kPanelColumns
  int64_t blocks;
  int32_t rows_per_block;     // at most kMaxPanelTileRows
  int32_t columns_per_block;  // a multiple of kPanelColumns
  PanelFormat format;
};

inline constexpr int kMaxPanelTileRows = 64;

}  // namespace reprise::kernels
