#pragma once

#include <cstdint>

#include "reprise/tensor/block_panels.h"

namespace reprise::kernels {

/// out = x @ weight^T + bias over quantised rows and a packed weight. Bias and out have the type of
/// the kernel.
struct alignas(16) BlockLinearArguments {
  const ActivationBlock* x;  // [rows, blocks]
  const uint8_t* weight;     // begins with a PanelHeader
  const void* bias;          // [outputs of the weight], or nullptr
  void* out;                 // [rows, columns]
  const int32_t* num_rows;   // rows to compute, read when the kernel runs; nullptr = all
  int64_t rows;
  int64_t columns;  // of out
  int64_t panels;   // that the blocks share: all, or half of them where an output needs two columns
  int64_t blocks;
  int32_t rows_per_block;    // at most kMaxPanelTileRows
  int32_t panels_per_block;  // at most kMaxPanelSlots
};

/// The rows that share an unpacked stretch of a panel. A multiple of the rows of a register tile
/// and of those of an AMX tile, and few enough that their sums stay in the second cache level.
inline constexpr int kMaxPanelTileRows = 288;
/// The panels that share the rows of x in the first cache level.
inline constexpr int kMaxPanelSlots = 4;

}  // namespace reprise::kernels
