#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

/// The layout in memory of weights that kernels read in blocks of 32 elements, and of activations
/// that are quantised in the same blocks.
///
/// A packed weight is an int8 tensor [out_features, bytes_per_row]; out_features is a multiple of
/// kPanelColumns. Its memory holds panels of kPanelColumns neighbouring rows, and a panel holds for
/// each block of 32 elements the codes of all its rows, then their float16 scales:
///
///   q8_0  8 x [16 rows][4 bytes]: element + 128 of elements 4g..4g+3 in group g; 16 scales
///   q4_0  4 x [16 rows][4 bytes]: element + 8 of elements 4g..4g+3 in the low halves of group g,
///   of
///         elements 16 + 4g.. in the high halves; 16 scales
///
/// So a row of 16 outputs is one vector of products, sums need no reduction, and the bytes are as
/// many as in the file.
///
/// A row of quantised activations is a list of ActivationBlock.
namespace reprise {

enum class PanelFormat : uint8_t { q8_0, q4_0 };

inline constexpr int64_t kPanelColumns = 16;
inline constexpr int64_t kPanelBlock = 32;  // elements

struct ActivationBlock {
  int8_t codes[kPanelBlock];
  float scale;  // an element is code * scale
  int32_t sum;  // of the codes
};
static_assert(sizeof(ActivationBlock) == 40);

/// Bytes of one block of one row.
[[nodiscard]] static constexpr int64_t panel_block_bytes(PanelFormat format) noexcept {
  return (format == PanelFormat::q8_0 ? kPanelBlock : kPanelBlock / 2) + 2;
}

/// The format of a packed weight from the bytes of its rows and of those of the activations, or
/// nothing when they do not fit together.
[[nodiscard]] static constexpr std::optional<PanelFormat> panel_format_of(
    int64_t weight_row_bytes, int64_t activation_row_bytes) noexcept {
  constexpr int64_t kBlockBytes = sizeof(ActivationBlock);
  if (activation_row_bytes <= 0 || activation_row_bytes % kBlockBytes != 0) return std::nullopt;
  const int64_t num_blocks = activation_row_bytes / kBlockBytes;
  for (const PanelFormat format : {PanelFormat::q8_0, PanelFormat::q4_0}) {
    if (weight_row_bytes == num_blocks * panel_block_bytes(format)) return format;
  }
  return std::nullopt;
}

}  // namespace reprise
