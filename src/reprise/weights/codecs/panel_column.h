#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "reprise/base/element.h"
#include "reprise/tensor/block_panels.h"

namespace reprise::weights {

/// Writes one column (a row of the checkpoint's matrix) into the panels of a packed weight's part.
/// Columns of one part may be written by several threads at once.
class PanelColumn {
 public:
  /// `panels` is the memory of all panels of the part, without a header.
  PanelColumn(PanelFormat format, std::span<std::byte> panels, int64_t depth, int64_t column);

  /// The codes of a block of 32 elements, in the order of the elements.
  void write_codes(int64_t block, const uint8_t* codes);

  /// Writes one entry of a block's scales, or of a super-block's head. `offset`: the bytes of the
  /// entries of all columns before this entry (16 f16 entries are 32 bytes).
  template <typename T>
  void write_scale(int64_t block, int64_t offset, T value) {
    write(block_at(block) + kPanelColumns * layout_.code_bytes + offset, value);
  }
  /// Writes one entry of the bytes after the panel's blocks.
  template <typename T>
  void write_tail(int64_t offset, T value) {
    write(panel_ + tail_offset_ + offset, value);
  }
  template <typename T>
  void write_head(int64_t super_block, int64_t offset, T value) {
    write(super_block_at(super_block) + offset, value);
  }

 private:
  template <typename T>
  void write(std::byte* entries, T value) {
    std::memcpy(entries + column_ * static_cast<int64_t>(sizeof value), &value, sizeof value);
  }
  [[nodiscard]] std::byte* super_block_at(int64_t super_block) const {
    return panel_ + super_block * super_bytes_;
  }
  [[nodiscard]] std::byte* block_at(int64_t block) const {
    return super_block_at(block / layout_.super_blocks) + kPanelColumns * layout_.head_bytes +
           block % layout_.super_blocks * block_bytes_;
  }

  PanelLayout layout_;
  int64_t column_;  // in its panel
  int64_t block_bytes_ = kPanelColumns * (layout_.code_bytes + layout_.scale_bytes);
  int64_t super_bytes_ = kPanelColumns * layout_.head_bytes + layout_.super_blocks * block_bytes_;
  int64_t tail_offset_;
  std::byte* panel_;
};

/// Clears those columns of the last panel that the part does not have.
void clear_unused_columns(PanelFormat format,
                          std::span<std::byte> panels,
                          int64_t depth,
                          int64_t columns);

/// The groups of a row of integer codes: element k is scale * (code - zero), with the scale and the
/// zero of group k / group_size.
struct IntegerGroups {
  int64_t group_size = 0;
  std::span<const float> scales;
  std::span<const uint16_t> zeros;  // up to 255
};

/// Writes a row of codes to the panels of int4_g32, int4_g128, int8_g128 or int8_rows. Codes of
/// eight bits are values + 128.
void write_integer_row(PanelFormat format,
                       std::span<std::byte> panels,
                       int64_t column,
                       std::span<const uint8_t> codes,
                       const IntegerGroups& groups);

}  // namespace reprise::weights
