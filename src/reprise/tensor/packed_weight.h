#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reprise/tensor/block_panels.h"
#include "reprise/tensor/tensor.h"

/// Packed weights as a whole: their header, their size, and their elements as numbers.
namespace reprise {

/// The header of a packed weight that consists of these parts, one after the other. \pre 1 to
/// PanelHeader::kMaxParts parts; depth is a multiple of panel_group_elements() of each
[[nodiscard]] PanelHeader make_panel_header(std::span<const PanelPart> parts, int64_t depth);

/// The bytes of the header and the panels.
[[nodiscard]] int64_t packed_weight_bytes(std::span<const PanelPart> parts, int64_t depth);

/// The type of a weight in blocks: numbers of `dtype` [columns of all parts, depth]; its bytes per
/// column are the smallest number that has room for all panels.
[[nodiscard]] TensorType packed_weight_type(std::span<const PanelPart> parts,
                                            int64_t depth,
                                            DType dtype);

/// Reads the header of a weight. \pre the tensor holds a weight in blocks in memory of the host
[[nodiscard]] PanelHeader read_panel_header(const Tensor& weight);

/// The value of an element, without rounding. `weight` begins with a PanelHeader. A reference for
/// kernels, and slow.
[[nodiscard]] double panel_element(const uint8_t* weight, int64_t column, int64_t element);

/// The same for a weight in any layout except rows, in memory of the host. `column` is an index of
/// the rows of its shape.
[[nodiscard]] double packed_element(const Tensor& weight, int64_t column, int64_t element);

}  // namespace reprise
