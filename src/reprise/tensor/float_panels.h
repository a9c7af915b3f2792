#pragma once

#include <cstdint>

#include "reprise/tensor/codecs.h"

/// The order of a matrix of float8 or of four-bit floats that kernels multiply with activations in
/// the model's type. Sixteen outputs ("columns": rows of a weight) are one panel. A panel is a list
/// of groups of the depth, and a group has its codes, then a float32 scale for each output:
///
///     [columns / 16] { [depth / group] { codes, float32 scales[16] }, tail }
///
///   format                   codes of a group            tail             an element is
///   f8e4m3_rows, _g128       uint8 [group / 2][16][2]    -                scale * float8 E4M3
///   f8e5m2_rows, _g128       uint8 [group / 2][16][2]    -                scale * float8 E5M2
///   f4_g64                   uint32 [group / 8][16]      f32 table[16]    scale * table[code]
///
/// `_rows`: the whole depth is one group. `_g128` and `_g64`: groups of 128 or 64 elements. A word
/// of f4_g64 has eight codes of neighbouring elements, the first in its lowest bits. The table is
/// that of nf4 or fp4, and no code of float8 is a NaN.
namespace reprise {

/// The number of elements that share a scale; 0: the whole depth.
[[nodiscard]] static constexpr int64_t float_panel_group(PanelFormat format) {
  switch (format) {
    case PanelFormat::f8e4m3_g128:
    case PanelFormat::f8e5m2_g128:
      return 128;
    case PanelFormat::f4_g64:
      return 64;
    default:
      return 0;
  }
}

/// The same number for rows of `depth` elements.
[[nodiscard]] static constexpr int64_t float_group_elements(PanelFormat format, int64_t depth) {
  const int64_t group = float_panel_group(format);
  return group == 0 ? depth : group;
}

/// Whether a matrix can be stored in panels. Then both halves of it are whole panels too, for
/// example gates and ups.
[[nodiscard]] static constexpr bool fits_float_panels(PanelFormat format,
                                                      int64_t columns,
                                                      int64_t depth) {
  return columns > 0 && columns % (2 * kPanelColumns) == 0 && depth > 0 &&
         depth % panel_group_elements(format) == 0;
}

/// Bytes of the codes of `elements` elements of all columns of a panel.
[[nodiscard]] static constexpr int64_t float_code_bytes(PanelFormat codec, int64_t elements) {
  return elements * kPanelColumns / (codec == PanelFormat::f4_g64 ? 2 : 1);
}
/// Bytes of the scales of a group.
inline constexpr int64_t kFloatScaleBytes = kPanelColumns * static_cast<int64_t>(sizeof(float));

/// Where group `index` of a panel begins, in bytes from the panel.
[[nodiscard]] static constexpr int64_t float_group_offset(PanelFormat codec,
                                                          int64_t group,
                                                          int64_t index) {
  return index * (float_code_bytes(codec, group) + kFloatScaleBytes);
}
/// Where the scale of a column is, in bytes from the panel.
[[nodiscard]] static constexpr int64_t float_scale_offset(PanelFormat codec,
                                                          int64_t group,
                                                          int64_t index,
                                                          int64_t column) {
  return float_group_offset(codec, group, index) + float_code_bytes(codec, group) +
         column % kPanelColumns * static_cast<int64_t>(sizeof(float));
}
/// Where the byte with the code of element `i` of a column is, in bytes from the panel. A byte of
/// f4_g64 has the code of the even element in its low half.
[[nodiscard]] static constexpr int64_t float_code_offset(PanelFormat codec,
                                                         int64_t group,
                                                         int64_t column,
                                                         int64_t i) {
  const int64_t begin = float_group_offset(codec, group, i / group);
  const int64_t lane = column % kPanelColumns;
  const int64_t k = i % group;
  return codec == PanelFormat::f4_g64 ? begin + k / 8 * 4 * kPanelColumns + lane * 4 + k % 8 / 2
                                      : begin + k / 2 * 2 * kPanelColumns + lane * 2 + k % 2;
}

}  // namespace reprise
