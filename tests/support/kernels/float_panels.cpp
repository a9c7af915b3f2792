#include "tests/support/kernels/float_panels.h"

#include <cmath>
#include <cstring>

#include "reprise/base/element.h"
#include "reprise/tensor/float_panels.h"

namespace reprise::kernels {
namespace {

uint8_t* panel_of(const Tensor& weight, int64_t column) {
  return weight.data_as<uint8_t>() + column / kPanelColumns * kPanelColumns * weight.size(1);
}
int64_t table_offset(const Tensor& weight) { return (weight.size(1) - 4) * kPanelColumns; }

float number_at(const uint8_t* p) {
  float number = 0;
  std::memcpy(&number, p, sizeof number);
  return number;
}

bool is_number(DType dtype, uint8_t code) {
  if (dtype == DType::f4_panels) return true;
  return std::isfinite(dtype == DType::f8e4m3_panels ? to_float(Float8E4M3{code})
                                                     : to_float(Float8E5M2{code}));
}

}  // namespace

TensorType float_panels_type(PanelFormat format, int64_t columns, int64_t depth) {
  return {float_panel_dtype(format), {columns, panel_column_bytes(format, depth)}};
}

void fill_float_panels(const Tensor& weight, int64_t depth, std::mt19937& random) {
  const DType dtype = weight.dtype();
  const int64_t group = float_panel_group(dtype, weight.size(1), depth);
  for (int64_t column = 0; column < weight.size(0); ++column) {
    uint8_t* panel = panel_of(weight, column);
    for (int64_t i = 0; i < depth; i += dtype == DType::f4_panels ? 2 : 1) {
      uint8_t code = 0;
      do {
        code = static_cast<uint8_t>(random());
      } while (!is_number(dtype, code));
      panel[float_code_offset(dtype, group, column, i)] = code;
    }
    for (int64_t g = 0; g < depth / group; ++g) {
      // E5M2 reaches 57344, E4M3 448.
      const float unit = dtype == DType::f8e5m2_panels ? 2e-7F : 2e-5F;
      const float scale = (static_cast<float>(random() % 2001) - 1000.0F) * unit;
      std::memcpy(panel + float_scale_offset(dtype, group, g, column), &scale, sizeof scale);
    }
    if (dtype != DType::f4_panels) continue;
    // Numbers that bfloat16 has too, because some instruction sets round them.
    const float entry = static_cast<float>(static_cast<int>(random() % 255) - 127);
    std::memcpy(panel + table_offset(weight) + column % kPanelColumns * 4, &entry, sizeof entry);
  }
}

double float_panel_element(const Tensor& weight, int64_t depth, int64_t column, int64_t element) {
  const DType dtype = weight.dtype();
  const int64_t group = float_panel_group(dtype, weight.size(1), depth);
  const uint8_t* panel = panel_of(weight, column);
  const uint8_t code = panel[float_code_offset(dtype, group, column, element)];
  const double scale = number_at(panel + float_scale_offset(dtype, group, element / group, column));
  if (dtype == DType::f8e4m3_panels) return scale * to_float(Float8E4M3{code});
  if (dtype == DType::f8e5m2_panels) return scale * to_float(Float8E5M2{code});
  const unsigned index = element % 2 == 0 ? code & 15U : code >> 4;
  return scale * number_at(panel + table_offset(weight) + index * 4);
}

}  // namespace reprise::kernels
