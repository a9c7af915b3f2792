#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reprise/tensor/float_panels.h"

namespace reprise::weights {

/// Writes one column (a row of the checkpoint's matrix) into panels of smaller floats
/// (tensor/float_panels.h). Columns may be written by several threads at once.
class FloatPanelColumn {
 public:
  /// `panels` is the memory of all panels. \pre fits_float_panels()
  FloatPanelColumn(PanelFormat format, std::span<std::byte> panels, int64_t depth, int64_t column);

  /// The number of elements that share a scale.
  [[nodiscard]] int64_t group() const noexcept { return group_; }

  /// One byte for each element. \pre float8
  void write_codes(std::span<const std::byte> codes);
  /// One code for each element. \pre four bits
  void write_codes(std::span<const uint8_t> codes);
  void write_scale(int64_t group_index, float value);
  /// Writes the numbers that the 16 codes stand for. The columns of a panel share them. \pre four
  /// bits
  void write_table(std::span<const float> numbers);

 private:
  PanelFormat codec_;
  int64_t depth_;
  int64_t group_;
  int64_t column_;
  std::byte* panel_;
  int64_t table_offset_;
};

}  // namespace reprise::weights
