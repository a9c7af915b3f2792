#pragma once

#include <cstdint>

#include "reprise/tensor/block_panels.h"

namespace reprise::kernels {

/// out[r] = x[row of r] @ weight[experts[r]]^T + bias[experts[r]] over quantised rows and packed
/// experts. Bias and out have the type of the kernel. All operands are dense.
struct alignas(16) BlockExpertLinearArguments {
  const ActivationBlock* x;  // [rows / rows_per_x, blocks]
  const uint8_t* weight;     // begins with a PanelHeader; the panels of an expert are neighbours
  const void* bias;          // [num_experts, columns], or nullptr
  const int32_t* experts;    // [rows], read when the kernel runs
  void* out;                 // [rows, columns]
  int64_t rows;              // num_tokens * top_k
  int64_t rows_per_x;        // rows of the result for each row of x: top_k or 1
  int64_t columns;           // of one expert
  int64_t panels;            // of one expert
  int64_t blocks;            // of a row of x
  int32_t panels_per_block;  // of the grid; at most kMaxPanelSlots
  // A block of the grid has some panels of one expert and finds the rows of that expert. Otherwise
  // it has one row, and looks up which expert that row needs.
  bool is_by_expert;
};

}  // namespace reprise::kernels
