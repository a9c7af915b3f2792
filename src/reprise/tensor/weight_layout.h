#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/tensor/weight_family.h"

namespace reprise {

/// The form in which a product takes its activations. The layout of the weight decides it.
enum class ActivationForm : uint8_t {
  elements,     // as they are
  int8_rows,    // int8 with one scale for each row: the results of quantize_per_token
  int8_blocks,  // ActivationBlocks (block_panels.h): the result of quantize_blocks
};

/// How the numbers of a matrix lie in memory. This is the only place that says so: the element type
/// and the shape of a tensor say what its numbers are, whatever its layout. A weight of
/// bfloat16[64, 128] may be stored in codes of four bits.
///
/// Only weights have another layout than rows. A tensor with such a layout is dense, has no views,
/// and is an operand only of ops whose signature says `packed`.
struct WeightLayout {
  WeightFamily family = WeightFamily::rows;
  /// The codec of int8_panels and float_panels. The parts of a weight in block_panels may have
  /// different codecs, which the header in the weight's memory names.
  PanelFormat codec = {};
  /// Bytes of each row, that is, of the last dimension; in block_panels they include the row's
  /// share of the header. 0: elements have their usual size.
  int32_t row_bytes = 0;

  [[nodiscard]] constexpr bool is_rows() const noexcept { return family == WeightFamily::rows; }
  /// Whether the numbers are codes.
  [[nodiscard]] constexpr bool has_codes() const noexcept { return row_bytes > 0; }
  /// For int8 panels and float panels: how many elements of a row of `depth` share a scale.
  [[nodiscard]] int64_t group(int64_t depth) const noexcept;
  /// The text that programs contain: "panels", "f8e4m3_g128_panels", "blocks144"; empty: rows.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const WeightLayout&, const WeightLayout&) = default;
};

[[nodiscard]] constexpr ActivationForm activation_form(WeightFamily family) noexcept {
  return family == WeightFamily::block_panels  ? ActivationForm::int8_blocks
         : family == WeightFamily::int8_panels ? ActivationForm::int8_rows
                                               : ActivationForm::elements;
}

/// The layout of a matrix of bfloat16 in column panels.
[[nodiscard]] constexpr WeightLayout column_panels_layout() noexcept {
  return {.family = WeightFamily::column_panels};
}
/// The layout of a matrix whose rows have `depth` elements. \pre int8_panels or float_panels
[[nodiscard]] WeightLayout layout_of(PanelFormat codec, int64_t depth);
/// The layout of a matrix in blocks. packed_weight_type() computes `row_bytes`.
[[nodiscard]] constexpr WeightLayout block_panels_layout(int64_t row_bytes) noexcept {
  return {.family = WeightFamily::block_panels, .row_bytes = static_cast<int32_t>(row_bytes)};
}

/// Reads a text from WeightLayout::to_string(), for a matrix whose rows have `depth` elements.
[[nodiscard]] std::optional<WeightLayout> parse_weight_layout(std::string_view text, int64_t depth);

/// "q4_k", "f8e4m3_g128"
[[nodiscard]] std::string_view codec_name(PanelFormat codec) noexcept;

}  // namespace reprise
