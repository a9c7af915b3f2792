#include "reprise/weights/codecs/quantize_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "reprise/base/assert.h"
#include "reprise/base/element.h"
#include "reprise/weights/codecs/float_panel_column.h"
#include "reprise/weights/codecs/panel_column.h"
#include "reprise/weights/convert.h"

namespace reprise::weights {
namespace {

using Codes = std::array<uint8_t, kPanelBlock>;
using Block = std::span<const float, kPanelBlock>;

constexpr float kLargestHalf = 65504.0F;

float finite(float value) { return std::isfinite(value) ? value : 0.0F; }

float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(finite(value)));
  return largest;
}

Float16 half_of(float value) {
  return Float16{f32_to_f16(std::clamp(value, -kLargestHalf, kLargestHalf))};
}

// Signed codes of eight bits, plus 128.
Codes wide_codes(Block block, float inverse) {
  Codes codes;
  for (size_t i = 0; i < codes.size(); ++i) {
    const float code = std::round(finite(block[i]) * inverse);
    codes[i] = static_cast<uint8_t>(static_cast<int>(std::clamp(code, -127.0F, 127.0F)) + 128);
  }
  return codes;
}

void quantize_q8_0(Block block, int64_t index, PanelColumn& to) {
  const float scale = largest_magnitude(block) / 127.0F;
  const float inverse = scale > 0 ? 1.0F / scale : 0.0F;
  to.write_codes(index, wide_codes(block, std::min(inverse, 3e38F)).data());
  to.write_scale(index, 0, half_of(scale));
}

void quantize_q4_0(Block block, int64_t index, PanelColumn& to) {
  float extreme = 0;
  for (const float value : block) {
    if (std::abs(finite(value)) > std::abs(extreme)) extreme = finite(value);
  }
  const float scale = extreme / -8.0F;
  const float inverse = scale != 0 ? 1.0F / scale : 0.0F;
  Codes codes;
  for (size_t i = 0; i < codes.size(); ++i) {
    const float code = std::clamp(finite(finite(block[i]) * inverse) + 8.5F, 0.0F, 15.0F);
    codes[i] = static_cast<uint8_t>(code);
  }
  to.write_codes(index, codes.data());
  to.write_scale(index, 0, half_of(scale));
}

void quantize_int8(std::span<const float> row, PanelColumn& to) {
  const float scale = largest_magnitude(row) / 127.0F;
  const float inverse = scale > 0 ? std::min(1.0F / scale, 3e38F) : 0.0F;
  const auto blocks = static_cast<int64_t>(row.size()) / kPanelBlock;
  const int64_t super_blocks = panel_layout(PanelFormat::int8_g128).super_blocks;
  for (int64_t i = 0; i < blocks; ++i) {
    const Block block(row.data() + i * kPanelBlock, kPanelBlock);
    to.write_codes(i, wide_codes(block, inverse).data());
    if (i % super_blocks == 0) to.write_head(i / super_blocks, 0, scale);
  }
}

// The codes of quantize_int8() without the offset, and their sum.
void quantize_int8_row(std::span<const float> row, PanelColumn& to) {
  const float scale = largest_magnitude(row) / 127.0F;
  const float inverse = scale > 0 ? std::min(1.0F / scale, 3e38F) : 0.0F;
  int32_t sum = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(row.size()) / kPanelBlock; ++i) {
    Codes codes = wide_codes(Block(row.data() + i * kPanelBlock, kPanelBlock), inverse);
    for (uint8_t& code : codes) {
      code = static_cast<uint8_t>(code - 128);
      sum += static_cast<int8_t>(code);
    }
    to.write_codes(i, codes.data());
  }
  to.write_tail(0, scale);
  to.write_tail(4 * kPanelColumns, sum);
}

// The largest magnitude in a group becomes 448, the largest float8.
void quantize_float8_row(std::span<const float> row, int64_t column, std::span<std::byte> panels) {
  const float scale = largest_magnitude(row) / 448.0F;
  const float inverse = scale > 0 ? std::min(1.0F / scale, 3e38F) : 0.0F;
  std::vector<std::byte> codes(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    Float8E4M3 code;
    store_element(&code, finite(row[i]) * inverse);
    codes[i] = static_cast<std::byte>(code.bits);
  }
  FloatPanelColumn to(PanelFormat::f8e4m3_rows, panels, static_cast<int64_t>(row.size()), column);
  to.write_codes(codes);
  to.write_scale(0, scale);
}

}  // namespace

void quantize_row(PanelFormat format,
                  std::span<const float> row,
                  int64_t column,
                  std::span<std::byte> panels) {
  if (format == PanelFormat::f8e4m3_rows) return quantize_float8_row(row, column, panels);
  const auto depth = static_cast<int64_t>(row.size());
  REPRISE_ASSERT(depth % panel_group_elements(format) == 0, "a row of {} elements", depth);
  PanelColumn to(format, panels, depth, column);
  if (format == PanelFormat::int8_g128) return quantize_int8(row, to);
  if (format == PanelFormat::int8_rows) return quantize_int8_row(row, to);
  REPRISE_ASSERT(format == PanelFormat::q8_0 || format == PanelFormat::q4_0,
                 "rows are not quantised to format {}",
                 static_cast<int>(format));
  for (int64_t i = 0; i < depth / kPanelBlock; ++i) {
    const Block block(row.data() + i * kPanelBlock, kPanelBlock);
    if (format == PanelFormat::q8_0) {
      quantize_q8_0(block, i, to);
    } else {
      quantize_q4_0(block, i, to);
    }
  }
}

}  // namespace reprise::weights
