#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reprise/tensor/block_panels.h"

namespace reprise::weights {

/// Quantises one row of a matrix into column `column` of the panels of a packed weight:
///
///   q8_0       a scale of 32 elements each, max|x| / 127, as llama.cpp does it
///   q4_0       a scale of 32 elements each, the element of largest magnitude / -8, the same
///   int8_g128  one scale of the whole row, max|x| / 127
///   int8_rows  the same codes and the same scale
///   f8e4m3_rows  one scale of the whole row, max|x| / 448, and codes rounded to nearest even
///
/// NaN and infinity are quantised as 0. Scales are clamped to the range of float16.
/// \pre `format` is one of these, and the row is whole groups of panel_group_elements()
void quantize_row(PanelFormat format,
                  std::span<const float> row,
                  int64_t column,
                  std::span<std::byte> panels);

}  // namespace reprise::weights
