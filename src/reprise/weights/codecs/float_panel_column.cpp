#include "reprise/weights/codecs/float_panel_column.h"

#include <cstring>

#include "reprise/base/assert.h"
#include "reprise/tensor/block_panels.h"

namespace reprise::weights {

FloatPanelColumn::FloatPanelColumn(PanelFormat format,
                                   std::span<std::byte> panels,
                                   int64_t depth,
                                   int64_t column)
    : codec_(format),
      depth_(depth),
      group_(float_group_elements(format, depth)),
      column_(column % kPanelColumns) {
  const int64_t panel_size = panel_bytes(format, kPanelColumns, depth);
  const int64_t begin = column / kPanelColumns * panel_size;
  REPRISE_ASSERT(group_ > 0 && static_cast<uint64_t>(begin + panel_size) <= panels.size(),
                 "column {} is outside of {} bytes of panels",
                 column,
                 panels.size());
  panel_ = panels.data() + begin;
  table_offset_ = panel_size - kPanelColumns * panel_layout(format).tail_bytes;
}

void FloatPanelColumn::write_codes(std::span<const std::byte> codes) {
  for (int64_t k = 0; k < depth_; k += 2) {
    std::memcpy(
        panel_ + float_code_offset(codec_, group_, column_, k), codes.data() + k, size_t{2});
  }
}

void FloatPanelColumn::write_codes(std::span<const uint8_t> codes) {
  for (int64_t k = 0; k < depth_; k += 2) {
    const auto at = static_cast<size_t>(k);
    panel_[float_code_offset(codec_, group_, column_, k)] =
        static_cast<std::byte>((codes[at] & 15U) | (codes[at + 1] & 15U) << 4);
  }
}

void FloatPanelColumn::write_scale(int64_t group_index, float value) {
  std::memcpy(
      panel_ + float_scale_offset(codec_, group_, group_index, column_), &value, sizeof value);
}

void FloatPanelColumn::write_table(std::span<const float> numbers) {
  std::memcpy(panel_ + table_offset_, numbers.data(), numbers.size_bytes());
}

}  // namespace reprise::weights
