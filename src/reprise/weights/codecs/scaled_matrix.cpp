#include "reprise/weights/codecs/scaled_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reprise/base/element.h"
#include "reprise/base/error.h"
#include "reprise/weights/codecs/float_panel_column.h"

namespace reprise::weights {
namespace {

constexpr int kMiddleOfCodes = 128;

// The number of scales along outputs and along depth, and the number of elements that share one.
struct ScaleGrid {
  int64_t rows = 1;  // of scales
  int64_t columns = 1;
  int64_t elements_down = 0;
  int64_t elements_across = 0;

  [[nodiscard]] int64_t index(int64_t n, int64_t k) const {
    return n / elements_down * columns + k / elements_across;
  }
};

int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The stored tensors of one matrix.
struct ScaledParts {
  std::string weight;
  std::string scale;
  std::string zeros;  // empty: none
  float scale_factor = 1;

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all = {weight, scale};
    if (!zeros.empty()) all.push_back(zeros);
    return all;
  }
};

ScaleGrid grid_of(const WeightSource& source,
                  const ScaledParts& parts,
                  const QuantizationConfig& config) {
  const std::vector<int64_t>& shape = require_tensor(source, parts.weight).shape;
  const std::vector<int64_t>& scales = require_tensor(source, parts.scale).shape;
  const int64_t outputs = shape[0];
  const int64_t depth = shape[1];
  const int64_t rows = scales.empty() ? 1 : scales[0];
  const int64_t columns = scales.size() < 2 ? 1 : scales[1];
  if (scales.size() > 2 || rows < 1 || columns < 1) {
    fail_shape(source, parts.scale, "at most two dimensions");
  }
  const bool is_blocked = config.block_rows > 0;
  if (rows == 1 && columns == 1) return {1, 1, outputs, depth};
  if (is_blocked && rows == ceil_of(outputs, config.block_rows) &&
      columns == ceil_of(depth, config.block_columns)) {
    return {rows, columns, config.block_rows, config.block_columns};
  }
  if (rows == outputs && depth % columns == 0) return {rows, columns, 1, depth / columns};
  fail_shape(source,
             parts.scale,
             is_blocked
                 ? fmt::format("[{}, {}]: a scale for each block of {} x {} elements of {}",
                               ceil_of(outputs, config.block_rows),
                               ceil_of(depth, config.block_columns),
                               config.block_rows,
                               config.block_columns,
                               shape_text(shape))
                 : fmt::format("one scale, or one for each row, or for each group of a row, of {}",
                               shape_text(shape)));
}

void require_matrix(const WeightSource& source, const std::string& name) {
  const std::vector<int64_t>& shape = require_tensor(source, name).shape;
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
    fail_shape(source, name, "a matrix of two dimensions");
  }
}

std::vector<float> read_scales(const WeightSource& source, const ScaledParts& parts) {
  std::vector<float> scales = read_numbers(source, parts.scale);
  for (float& scale : scales) {
    scale *= parts.scale_factor;
    if (std::isfinite(scale)) continue;
    throw FileError(
        "E_VALUE", source.description(), visible(parts.scale), "is not a finite number");
  }
  return scales;
}

// Float8: every code is a number.
class Float8Matrix final : public QuantizedMatrix {
 public:
  Float8Matrix(const WeightSource& source,
               const ScaledParts& parts,
               const QuantizationConfig& config)
      : QuantizedMatrix(source, parts.names()),
        parts_(parts),
        grid_(grid_of(source, parts, config)) {
    const TensorSpec& spec = require_tensor(source, parts.weight);
    set_shape(spec.shape[0], spec.shape[1]);
    for (size_t code = 0; code < numbers_.size(); ++code) {
      const auto bits = static_cast<uint8_t>(code);
      numbers_[code] =
          spec.dtype == DType::f8e4m3 ? to_float(Float8E4M3{bits}) : to_float(Float8E5M2{bits});
    }
    choose_panels(spec.dtype);
  }

  [[nodiscard]] std::optional<PanelFormat> panels() const override { return panels_; }
  void read_panels(std::span<std::byte> dst) const override {
    const std::vector<std::byte> codes = read_stored(source(), parts_.weight);
    require_numbers(codes);
    const std::vector<float> scales = read_scales(source(), parts_);
    for (int64_t n = 0; n < outputs(); ++n) {
      FloatPanelColumn to(*panels_, dst, depth(), n);
      to.write_codes(
          std::span(codes).subspan(static_cast<size_t>(n * depth()), static_cast<size_t>(depth())));
      for (int64_t g = 0; g < depth() / to.group(); ++g) {
        to.write_scale(g, scales[static_cast<size_t>(grid_.index(n, g * to.group()))]);
      }
    }
  }

  void read_rows(const OnRow& on_row) const override {
    const std::vector<std::byte> codes = read_stored(source(), parts_.weight);
    const std::vector<float> scales = read_scales(source(), parts_);
    std::vector<float> row(static_cast<size_t>(depth()));
    for (int64_t n = 0; n < outputs(); ++n) {
      const std::byte* from = codes.data() + n * depth();
      for (int64_t k = 0; k < depth(); ++k) {
        row[static_cast<size_t>(k)] = numbers_[std::to_integer<size_t>(from[k])] *
                                      scales[static_cast<size_t>(grid_.index(n, k))];
      }
      on_row(n, row);
    }
  }

 private:
  void choose_panels(DType dtype) {
    const bool is_e4m3 = dtype == DType::f8e4m3;
    const bool has_rows = grid_.elements_across >= depth();
    const PanelFormat format = has_rows
                                   ? is_e4m3 ? PanelFormat::f8e4m3_rows : PanelFormat::f8e5m2_rows
                               : is_e4m3 ? PanelFormat::f8e4m3_g128
                                         : PanelFormat::f8e5m2_g128;
    const int64_t group = float_panel_group(format);
    const bool has_groups = group == 0 || grid_.elements_across % group == 0;
    if (has_groups && is_multiplied_whole(parts_.weight) &&
        fits_float_panels(format, outputs(), depth())) {
      panels_ = format;
    }
  }
  // Kernels put the bits of a float8 into those of a float16, in which float8's NaN would be a
  // number.
  void require_numbers(std::span<const std::byte> codes) const {
    if (*panels_ != PanelFormat::f8e4m3_rows && *panels_ != PanelFormat::f8e4m3_g128) return;
    constexpr unsigned kNan = 0x7f;
    const bool has_nan = std::ranges::any_of(
        codes, [](std::byte code) { return (std::to_integer<unsigned>(code) & kNan) == kNan; });
    if (has_nan) {
      throw FileError(
          "E_VALUE", source().description(), visible(parts_.weight), "has elements that are NaN");
    }
  }

  ScaledParts parts_;
  ScaleGrid grid_;
  std::array<float, 256> numbers_;  // by code
  std::optional<PanelFormat> panels_;
};

// int8. A code of IntegerMatrix is the stored code plus 128.
class Int8Matrix final : public IntegerMatrix {
 public:
  Int8Matrix(const WeightSource& source, const ScaledParts& parts, const QuantizationConfig& config)
      : IntegerMatrix(source, parts.names()), parts_(parts), grid_(grid_of(source, parts, config)) {
    const TensorSpec& spec = require_tensor(source, parts.weight);
    set_shape(spec.shape[0], spec.shape[1]);
    group_size_ = grid_.elements_across;
    // There are no kernels for products of experts whose rows have one scale.
    has_int8_rows_ = (config.has_int8_tokens || has_static_scale(config)) &&
                     parts.weight.find(".experts.") == std::string::npos;
    const Codes groups = read_groups();
    choose_panels(8, groups.scales, groups.zeros);
  }

 protected:
  [[nodiscard]] Codes read_codes() const override {
    Codes read = read_groups();
    const std::vector<std::byte> stored = read_stored(source(), parts_.weight);
    read.codes.resize(stored.size());
    std::ranges::transform(stored, read.codes.begin(), [](std::byte code) {
      return static_cast<uint8_t>(std::to_integer<unsigned>(code) ^ kMiddleOfCodes);
    });
    return read;
  }

 private:
  [[nodiscard]] bool has_static_scale(const QuantizationConfig& config) const {
    const std::string module = parts_.weight.substr(0, parts_.weight.rfind('.'));
    return config.has_static_int8 && source().has(module + ".input_scale");
  }
  // Scales and zeros for each output.
  [[nodiscard]] Codes read_groups() const {
    const std::vector<float> scales = read_scales(source(), parts_);
    std::vector<std::byte> zeros;
    if (!parts_.zeros.empty()) zeros = read_zeros();
    const int64_t groups = ceil_of(depth(), grid_.elements_across);
    Codes read;
    for (int64_t n = 0; n < outputs(); ++n) {
      for (int64_t g = 0; g < groups; ++g) {
        const auto at = static_cast<size_t>(grid_.index(n, g * grid_.elements_across));
        read.scales.push_back(scales[at]);
        const unsigned zero = zeros.empty() ? 0U : std::to_integer<unsigned>(zeros[at]);
        read.zeros.push_back(static_cast<uint16_t>(zero ^ kMiddleOfCodes));
      }
    }
    return read;
  }
  [[nodiscard]] std::vector<std::byte> read_zeros() const {
    const TensorSpec& zeros = require_tensor(source(), parts_.zeros);
    const TensorSpec& scales = require_tensor(source(), parts_.scale);
    if (zeros.dtype != DType::i8 || zeros.shape != scales.shape) {
      fail_shape(source(), parts_.zeros, fmt::format("int8 {}", shape_text(scales.shape)));
    }
    return read_stored(source(), parts_.zeros);
  }

  ScaledParts parts_;
  ScaleGrid grid_;
};

std::optional<ScaledParts> parts_of(const WeightSource& source, const std::string& module) {
  ScaledParts parts{.weight = module + ".weight", .scale = {}, .zeros = {}};
  if (source.has(module + ".weight_zero_point")) parts.zeros = module + ".weight_zero_point";
  for (const char* suffix : {".weight_scale", ".weight_scale_inv", ".SCB"}) {
    if (!source.has(module + suffix)) continue;
    parts.scale = module + suffix;
    if (parts.scale.ends_with(".SCB")) parts.scale_factor = 1.0F / 127.0F;
    return parts;
  }
  return std::nullopt;
}

}  // namespace

MatrixMap find_scaled_matrices(const WeightSource& source, const QuantizationConfig& config) {
  constexpr std::string_view kSuffix = ".weight";
  MatrixMap matrices;
  for (const std::string_view name : source.names()) {
    if (!name.ends_with(kSuffix)) continue;
    const DType dtype = source.find(name)->dtype;
    const bool is_float8 = dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
    if (!is_float8 && dtype != DType::i8) continue;
    const std::string module(name.substr(0, name.size() - kSuffix.size()));
    const std::optional<ScaledParts> parts = parts_of(source, module);
    if (!parts) {
      throw FileError("E_MISSING",
                      source.description(),
                      visible(module + ".weight_scale"),
                      fmt::format("{} is {}, which needs a scale: weight_scale or weight_scale_inv",
                                  visible(name),
                                  dtype_name(dtype)));
    }
    require_matrix(source, parts->weight);
    if (source.has(module + ".weight_g_idx")) {
      throw FileError("E_VALUE",
                      source.description(),
                      visible(module + ".weight_g_idx"),
                      "groups in an order of their own are read from packed codes only");
    }
    if (is_float8) {
      matrices.emplace(parts->weight, std::make_unique<Float8Matrix>(source, *parts, config));
    } else {
      matrices.emplace(parts->weight, std::make_unique<Int8Matrix>(source, *parts, config));
    }
  }
  return matrices;
}

}  // namespace reprise::weights
