#pragma once

#include <cstdint>

#include "reprise/kernels/rope_kv_write/rope_kv_write_arguments.h"
#include "reprise/tensor/block_panels.h"

/// The arguments of all products.
namespace reprise::kernels {

/// out = x @ weight^T + bias, or something more after the sums. Weight, bias and out are dense.
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
  int32_t columns_per_block;  // at most kMaxLinearTileColumns; for a weight in panels, whole panels
  WeightFamily family = WeightFamily::rows;
  PanelFormat codec = PanelFormat::q8_0;  // of float panels
  const float* x_scale = nullptr;         // for a weight in int8 panels
  int64_t x_scale_stride = 1;             // between the scales of rows; 0: one scale for all rows
  // For a weight in float panels: the elements that share a scale, and the bytes of a column.
  int64_t group = 0;
  int64_t column_bytes = 0;
  // The operand that a product with a sum adds: [rows, columns], rows residual_stride apart. It may
  // be the memory of out.
  const void* residual = nullptr;
  int64_t residual_stride = 0;  // elements
};

/// Whether the columns of the weight lie in panels.
static constexpr bool is_in_panels(const LinearArguments& a) {
  return a.family != WeightFamily::rows;
}

inline constexpr int kMaxLinearTileRows = 64;
inline constexpr int kMaxLinearTileColumns = 64;

/// The columns of the product are the heads of q, then of k, then of v. The product has no `out` of
/// its own, and columns_per_block is one head.
struct alignas(16) LinearRopeKvWriteArguments {
  LinearArguments product;
  RopeAndCache to;
};

/// A block of the grid keeps one head of kMaxLinearTileRows tokens on the stack: 64 KiB at most.
inline constexpr int kMaxLinearRopeHeadDim = 256;

/// A matrix product for each head.
struct alignas(16) HeadLinearArguments {
  LinearArguments first_head;
  int64_t heads;
  int64_t x_head_stride;  // elements
  int64_t blocks_per_head;
};

/// out = product * scale * weight_scale + bias. `bias` and `out` of the product have the type of
/// the result.
struct alignas(16) ScaledLinearArguments {
  LinearArguments product;
  const float* scale;         // of row r: scale[r * scale_stride]
  const float* weight_scale;  // [columns]
  int64_t scale_stride;       // 1, or 0 for one scale
};

/// The sums of int8 products are int32: 2^17 products of -128 and -128 would overflow.
inline constexpr int64_t kMaxScaledLinearDepth = (int64_t{1} << 17) - 1;

/// out[r] = x[row of r] @ weight[experts[r]]^T + bias[experts[r]]. All but x are dense.
struct alignas(16) ExpertLinearArguments {
  const void* x;           // rows x_stride apart
  const void* weight;      // [num_experts, columns, depth]
  const void* bias;        // [num_experts, columns], or nullptr
  const int32_t* experts;  // [rows], read when the kernel runs
  void* out;               // [rows, columns]
  int64_t x_stride;        // elements
  int64_t rows;            // num_tokens * top_k
  int64_t rows_per_x;      // rows of the result for each row of x: top_k or 1
  int64_t columns;
  int64_t depth;
  int64_t columns_per_block;  // at most kMaxLinearTileColumns
};

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
  // Number of panels that the blocks share: all panels, or half of them if an output needs two
  // columns.
  int64_t panels;
  int64_t blocks;
  int32_t rows_per_block;          // at most kMaxPanelTileRows
  int32_t panels_per_block;        // at most kMaxPanelSlots
  const void* residual = nullptr;  // of a product with a sum: [rows, columns]
  int64_t residual_stride = 0;     // elements
};

/// The number of rows that share an unpacked stretch of a panel. It is a multiple of the rows of a
/// register tile and of an AMX tile, and so small that their sums stay in the second cache level.
inline constexpr int kMaxPanelTileRows = 288;
/// The number of panels that share the rows of x in the first cache level.
inline constexpr int kMaxPanelSlots = 4;

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
  int32_t panels_per_block;  // panels of a block of the grid; at most kMaxPanelSlots
  // true: a block of the grid has some panels of one expert and finds the rows of that expert.
  // false: it has one row and looks up the expert of this row.
  bool is_by_expert;
};

}  // namespace reprise::kernels
