#include "tests/support/kernels/int8_panels.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "reprise/tensor/int8_panels.h"

namespace reprise::kernels {

TensorType int8_panels_type(int64_t columns, int64_t depth, DType dtype) {
  return {dtype, {columns, depth}, layout_of(PanelFormat::int8_rows, depth)};
}

void fill_int8_panels(const Tensor& weight, std::mt19937& random) {
  const int64_t depth = weight.size(1);
  std::vector<int8_t> codes(static_cast<size_t>(depth));
  for (int64_t column = 0; column < weight.size(0); ++column) {
    for (int8_t& code : codes) {
      const auto value = static_cast<int>(random() % 300);
      code = static_cast<int8_t>(value < 256 ? value - 128 : value % 2 == 0 ? -128 : 127);
    }
    set_int8_panel_column(weight, column, codes);
    const float scale = (static_cast<float>(random() % 2001) - 1000.0F) * 2e-5F;
    std::memcpy(weight.data_as<int8_t>() + int8_scale_offset(column, depth), &scale, sizeof scale);
  }
}

int int8_panel_code(const Tensor& weight, int64_t column, int64_t element) {
  return weight.data_as<int8_t>()[int8_panel_offset(column, element, weight.size(1))];
}

float int8_panel_scale(const Tensor& weight, int64_t column) {
  float scale = 0;
  std::memcpy(
      &scale, weight.data_as<int8_t>() + int8_scale_offset(column, weight.size(1)), sizeof scale);
  return scale;
}

void set_int8_panel_column(const Tensor& weight, int64_t column, std::span<const int8_t> codes) {
  const int64_t depth = weight.size(1);
  auto* panels = weight.data_as<int8_t>();
  for (int64_t i = 0; i < depth; ++i) {
    panels[int8_panel_offset(column, i, depth)] = codes[static_cast<size_t>(i)];
  }
  const int32_t sum = std::accumulate(codes.begin(), codes.end(), 0);
  std::memcpy(panels + int8_sum_offset(column, depth), &sum, sizeof sum);
}

}  // namespace reprise::kernels
