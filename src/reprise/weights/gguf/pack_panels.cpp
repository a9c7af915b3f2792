#include "reprise/weights/gguf/pack_panels.h"

#include <cstring>

#include "reprise/base/assert.h"

namespace reprise::weights::gguf {

std::optional<PanelFormat> panel_format_of(BlockFormat format) noexcept {
  if (format == BlockFormat::q8_0) return PanelFormat::q8_0;
  if (format == BlockFormat::q4_0) return PanelFormat::q4_0;
  return std::nullopt;
}

void pack_row(PanelFormat format,
              std::span<const std::byte> blocks,
              int64_t row,
              std::span<std::byte> panels) {
  constexpr size_t kScaleBytes = 2;
  constexpr size_t kGroupBytes = 4;
  const auto block_bytes = static_cast<size_t>(panel_block_bytes(format));
  const size_t panel_row_bytes = kPanelColumns * blocks.size();
  const auto panel = static_cast<size_t>(row / kPanelColumns);
  const auto column = static_cast<size_t>(row % kPanelColumns);
  REPRISE_ASSERT((panel + 1) * panel_row_bytes <= panels.size(), "row {} of a packed weight", row);
  std::byte* to = panels.data() + panel * panel_row_bytes;
  const size_t num_groups = (block_bytes - kScaleBytes) / kGroupBytes;
  // The codes of Q8_0 are signed; the products of kernels take unsigned ones.
  const auto offset = format == PanelFormat::q8_0 ? std::byte{0x80} : std::byte{0};
  for (size_t at = 0; at < blocks.size(); at += block_bytes) {
    const std::byte* block = blocks.data() + at;
    for (size_t group = 0; group < num_groups; ++group) {
      std::byte* codes = to + (group * kPanelColumns + column) * kGroupBytes;
      for (size_t i = 0; i < kGroupBytes; ++i) {
        codes[i] = block[kScaleBytes + group * kGroupBytes + i] ^ offset;
      }
    }
    std::memcpy(
        to + num_groups * kPanelColumns * kGroupBytes + column * kScaleBytes, block, kScaleBytes);
    to += kPanelColumns * block_bytes;
  }
}

}  // namespace reprise::weights::gguf
