#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "reprise/tensor/block_panels.h"
#include "reprise/weights/gguf/block_format.h"

namespace reprise::weights::gguf {

/// The layout in which kernels read rows of this format; nothing: such rows are dequantised.
[[nodiscard]] std::optional<PanelFormat> panel_format_of(BlockFormat format) noexcept;

/// Writes row `row` of a packed weight (tensor/block_panels.h), from the row's stored blocks.
/// `panels` is the memory of all panels. \pre panel_format_of(format)
void pack_row(BlockFormat format,
              std::span<const std::byte> blocks,
              int64_t row,
              std::span<std::byte> panels);

}  // namespace reprise::weights::gguf
