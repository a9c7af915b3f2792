#include "tests/support/kernels/float_panels.h"

#include <cmath>
#include <cstring>

#include "reprise/base/element.h"
#include "reprise/tensor/float_panels.h"

namespace reprise::kernels {
namespace {

uint8_t* panel_of(const Tensor& weight, int64_t column) {
  return weight.data_as<uint8_t>() +
         column / kPanelColumns * kPanelColumns * weight.layout().row_bytes;
}
int64_t table_offset(const Tensor& weight) {
  return (weight.layout().row_bytes - 4) * kPanelColumns;
}

bool has_e5m2(PanelFormat codec) {
  return codec == PanelFormat::f8e5m2_rows || codec == PanelFormat::f8e5m2_g128;
}

bool is_number(PanelFormat codec, uint8_t code) {
  if (codec == PanelFormat::f4_g64) return true;
  return std::isfinite(has_e5m2(codec) ? to_float(Float8E5M2{code}) : to_float(Float8E4M3{code}));
}

}  // namespace

TensorType float_panels_type(PanelFormat format, int64_t columns, int64_t depth, DType dtype) {
  return {dtype, {columns, depth}, layout_of(format, depth)};
}

void fill_float_panels(const Tensor& weight, std::mt19937& random) {
  const int64_t depth = weight.size(1);
  const PanelFormat codec = weight.layout().codec;
  const bool has_four_bits = codec == PanelFormat::f4_g64;
  const int64_t group = weight.layout().group(depth);
  for (int64_t column = 0; column < weight.size(0); ++column) {
    uint8_t* panel = panel_of(weight, column);
    for (int64_t i = 0; i < depth; i += has_four_bits ? 2 : 1) {
      uint8_t code = 0;
      do {
        code = static_cast<uint8_t>(random());
      } while (!is_number(codec, code));
      panel[float_code_offset(codec, group, column, i)] = code;
    }
    for (int64_t g = 0; g < depth / group; ++g) {
      // E5M2 reaches 57344, E4M3 448.
      const float unit = has_e5m2(codec) ? 2e-7F : 2e-5F;
      const float scale = (static_cast<float>(random() % 2001) - 1000.0F) * unit;
      std::memcpy(panel + float_scale_offset(codec, group, g, column), &scale, sizeof scale);
    }
    if (!has_four_bits) continue;
    // Uses numbers that bfloat16 represents exactly, because some instruction sets round to
    // bfloat16.
    const float entry = static_cast<float>(static_cast<int>(random() % 255) - 127);
    std::memcpy(panel + table_offset(weight) + column % kPanelColumns * 4, &entry, sizeof entry);
  }
}

}  // namespace reprise::kernels
