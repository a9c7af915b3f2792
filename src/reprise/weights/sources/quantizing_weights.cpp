#include "reprise/weights/sources/quantizing_weights.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "reprise/base/assert.h"
#include "reprise/tensor/float_panels.h"
#include "reprise/tensor/int8_panels.h"
#include "reprise/weights/codecs/panel_column.h"
#include "reprise/weights/codecs/quantize_rows.h"
#include "reprise/weights/codecs/quantized_matrix.h"

namespace reprise::weights {
namespace {

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

// Routers are not quantised: they are small, and rounding would choose other experts.
bool is_router(std::string_view name) {
  constexpr std::array<std::string_view, 4> kEndings = {".mlp.gate.weight",
                                                        ".block_sparse_moe.gate.weight",
                                                        ".router.weight",
                                                        ".router.layer.weight"};
  return std::ranges::any_of(kEndings,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

// Whether the tensor is a matrix, or the matrices of all experts.
bool are_matrices(std::string_view name, const TensorSpec& spec) {
  if (is_router(name)) return false;
  if (spec.shape.size() == 2) return true;
  return spec.shape.size() == 3 && name.find(".experts.") != std::string_view::npos;
}

bool is_in_layer(std::string_view name) { return name.find(".layers.") != std::string_view::npos; }

std::optional<PanelFormat> format_for(LoadQuantization method,
                                      std::string_view name,
                                      const TensorSpec& spec) {
  const int64_t depth = spec.shape.back();
  if (method == LoadQuantization::fp8) {
    const bool is_quantised = spec.shape.size() == 2 && is_in_layer(name) &&
                              is_multiplied_whole(name) &&
                              fits_float_panels(PanelFormat::f8e4m3_rows, spec.shape[0], depth);
    return is_quantised ? std::optional(PanelFormat::f8e4m3_rows) : std::nullopt;
  }
  // There are no kernels for products of experts whose rows have one scale.
  const bool is_expert = spec.shape.size() == 3 || name.find(".experts.") != std::string_view::npos;
  if (method == LoadQuantization::int8 && !is_expert && fits_int8_panels(spec.shape[0], depth)) {
    return PanelFormat::int8_rows;
  }
  if (method == LoadQuantization::int4) {
    return is_in_layer(name) ? PanelFormat::q4_0 : PanelFormat::q8_0;
  }
  const bool has_groups = depth % panel_group_elements(PanelFormat::int8_g128) == 0;
  return method == LoadQuantization::int8 && has_groups ? PanelFormat::int8_g128
                                                        : PanelFormat::q8_0;
}

}  // namespace

std::optional<PanelFormat> QuantizingWeights::panel_format(std::string_view name) const {
  if (const std::optional<PanelFormat> packed = source().panel_format(name)) return packed;
  const TensorSpec* spec = source().find(name);
  if (spec == nullptr || !is_float(spec->dtype) || !are_matrices(name, *spec)) return std::nullopt;
  const int64_t depth = spec->shape.back();
  if (depth == 0 || depth % kPanelBlock != 0) return std::nullopt;
  return format_for(method_, name, *spec);
}

void QuantizingWeights::read_panels(std::string_view name, std::span<std::byte> dst) const {
  if (source().panel_format(name)) return source().read_panels(name, dst);
  const TensorSpec& spec = *source().find(name);
  std::vector<float> values(static_cast<size_t>(num_matrix_rows(spec) * spec.shape.back()));
  source().read(name, DType::f32, std::as_writable_bytes(std::span(values)));
  quantize_rows(name, values, dst);
}

void QuantizingWeights::read_panel_rows(std::string_view name,
                                        RowRange rows,
                                        std::span<std::byte> dst) const {
  if (source().panel_format(name)) return source().read_panel_rows(name, rows, dst);
  const TensorSpec& spec = *source().find(name);
  const int64_t num_rows = rows.count * (num_matrix_rows(spec) / spec.shape[0]);
  std::vector<float> values(static_cast<size_t>(num_rows * spec.shape.back()));
  source().read_rows(name, rows, DType::f32, std::as_writable_bytes(std::span(values)));
  quantize_rows(name, values, dst);
}

void QuantizingWeights::quantize_rows(std::string_view name,
                                      std::span<const float> values,
                                      std::span<std::byte> dst) const {
  const std::optional<PanelFormat> format = panel_format(name);
  REPRISE_ASSERT(format.has_value(), "{}: the tensor has no panels", name);
  const auto depth = static_cast<size_t>(source().find(name)->shape.back());
  const auto rows = static_cast<int64_t>(values.size() / depth);
  clear_unused_columns(*format, dst, static_cast<int64_t>(depth), rows);
  for (int64_t row = 0; row < rows; ++row) {
    quantize_row(*format, values.subspan(static_cast<size_t>(row) * depth, depth), row, dst);
  }
}

}  // namespace reprise::weights
