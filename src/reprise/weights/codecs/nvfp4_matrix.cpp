#include "reprise/weights/codecs/nvfp4_matrix.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>

#include "reprise/base/element.h"
#include "reprise/base/error.h"
#include "reprise/tensor/block_panels.h"
#include "reprise/weights/codecs/panel_column.h"
#include "reprise/weights/convert.h"

namespace reprise::weights {
namespace {

constexpr std::string_view kModelOptScale = ".weight_scale_2";
constexpr int64_t kGroup = 16;  // elements that share a scale

/// The names of the stored tensors of one matrix.
struct Nvfp4Parts {
  std::string codes;
  std::string scales;
  std::string global;
  bool divides = false;  // by the number that all elements share
};

class Nvfp4Matrix final : public QuantizedMatrix {
 public:
  Nvfp4Matrix(const WeightSource& source, Nvfp4Parts stored, std::vector<std::string> parts)
      : QuantizedMatrix(source, std::move(parts)), stored_(std::move(stored)) {
    const TensorSpec& codes = require_tensor(source, stored_.codes);
    if (codes.dtype != DType::u8 || codes.shape.size() != 2 || codes.shape[0] < 1 ||
        codes.shape[1] < 1 || codes.shape[1] % (kGroup / 2) != 0) {
      fail_shape(source, stored_.codes, "uint8 [outputs, a multiple of 8]");
    }
    set_shape(codes.shape[0], codes.shape[1] * 2);
    const TensorSpec& scales = require_tensor(source, stored_.scales);
    const std::vector<int64_t> grid = {outputs(), depth() / kGroup};
    if (scales.dtype != DType::f8e4m3 || scales.shape != grid) {
      fail_shape(source, stored_.scales, fmt::format("float8_e4m3 {}", shape_text(grid)));
    }
    factor_ = read_factor();
  }

  void read_rows(const OnRow& on_row) const override {
    const std::vector<std::byte> codes = read_stored(source(), stored_.codes);
    const std::vector<float> scales = read_scales();
    std::vector<float> row(static_cast<size_t>(depth()));
    for (int64_t n = 0; n < outputs(); ++n) {
      for (int64_t k = 0; k < depth(); ++k) {
        row[static_cast<size_t>(k)] = static_cast<float>(kFp4Values[code_of(codes, n, k)]) *
                                      (scales[group_of(n, k)] * factor_);
      }
      on_row(n, row);
    }
  }

  [[nodiscard]] std::optional<PanelFormat> panels() const override {
    const bool fits = depth() % panel_group_elements(PanelFormat::nvfp4) == 0;
    return fits ? std::optional(PanelFormat::nvfp4) : std::nullopt;
  }
  void read_panels(std::span<std::byte> dst) const override {
    const std::vector<std::byte> codes = read_stored(source(), stored_.codes);
    const std::vector<float> scales = read_scales();
    clear_unused_columns(PanelFormat::nvfp4, dst, depth(), outputs());
    std::array<uint8_t, kPanelBlock> block;
    for (int64_t n = 0; n < outputs(); ++n) {
      PanelColumn to(PanelFormat::nvfp4, dst, depth(), n);
      for (int64_t k = 0; k < depth(); k += kPanelBlock) {
        for (size_t i = 0; i < block.size(); ++i) {
          block[i] = code_of(codes, n, k + static_cast<int64_t>(i));
        }
        to.write_codes(k / kPanelBlock, block.data());
        for (int64_t half = 0; half < kPanelBlock / kGroup; ++half) {
          const float scale = scales[group_of(n, k + half * kGroup)];
          // Float16 has every number of float8 E4M3.
          to.write_scale(k / kPanelBlock, half * 2 * kPanelColumns, Float16{f32_to_f16(scale)});
        }
      }
      const int64_t head_elements = panel_group_elements(PanelFormat::nvfp4);
      for (int64_t head = 0; head < depth() / head_elements; ++head) {
        to.write_head(head, 0, factor_);
      }
    }
  }

 private:
  [[nodiscard]] uint8_t code_of(const std::vector<std::byte>& codes, int64_t n, int64_t k) const {
    const auto pair = std::to_integer<unsigned>(codes[static_cast<size_t>((n * depth() + k) / 2)]);
    return static_cast<uint8_t>(k % 2 == 0 ? pair & 15U : pair >> 4);
  }
  [[nodiscard]] size_t group_of(int64_t n, int64_t k) const {
    return static_cast<size_t>((n * depth() + k) / kGroup);
  }
  [[nodiscard]] std::vector<float> read_scales() const {
    const std::vector<std::byte> stored = read_stored(source(), stored_.scales);
    std::vector<float> scales(stored.size());
    for (size_t i = 0; i < scales.size(); ++i) {
      scales[i] = to_float(Float8E4M3{std::to_integer<uint8_t>(stored[i])});
      if (std::isfinite(scales[i])) continue;
      throw FileError("E_VALUE",
                      source().description(),
                      visible(stored_.scales),
                      fmt::format("element {} is no number; every scale must be finite", i));
    }
    return scales;
  }
  // What multiplies a scale and twice a float4 number (kFp4Values).
  [[nodiscard]] float read_factor() const {
    const std::vector<float> numbers = read_numbers(source(), stored_.global);
    if (numbers.size() != 1) fail_shape(source(), stored_.global, "float32 with one element");
    const float factor = (stored_.divides ? 1.0F / numbers[0] : numbers[0]) / 2;
    if (!(numbers[0] > 0) || !std::isfinite(factor)) {
      throw FileError("E_VALUE",
                      source().description(),
                      visible(stored_.global),
                      fmt::format("is {}; expected a positive number", numbers[0]));
    }
    return factor;
  }

  Nvfp4Parts stored_;
  float factor_ = 1;
};

std::vector<std::string> with_input_scale(const WeightSource& source,
                                          const Nvfp4Parts& stored,
                                          const std::string& input_scale) {
  std::vector<std::string> parts = {stored.codes, stored.scales, stored.global};
  if (source.has(input_scale)) parts.push_back(input_scale);
  return parts;
}

}  // namespace

MatrixMap find_nvfp4_matrices(const WeightSource& source) {
  MatrixMap matrices;
  for (const std::string_view name : source.names()) {
    const bool divides = name.ends_with(kNvfp4GlobalScale);
    if (!divides && !name.ends_with(kModelOptScale)) continue;
    const size_t suffix = divides ? kNvfp4GlobalScale.size() : kModelOptScale.size();
    const std::string module(name.substr(0, name.size() - suffix));
    if (divides && source.has(module + ".weight")) {
      throw FileError("E_DUPLICATE",
                      source.description(),
                      visible(module + ".weight"),
                      "is stored as numbers and quantised");
    }
    Nvfp4Parts stored{.codes = module + (divides ? ".weight_packed" : ".weight"),
                      .scales = module + ".weight_scale",
                      .global = std::string(name),
                      .divides = divides};
    std::vector<std::string> parts = with_input_scale(
        source, stored, module + (divides ? ".input_global_scale" : ".input_scale"));
    matrices.emplace(module + ".weight",
                     std::make_unique<Nvfp4Matrix>(source, std::move(stored), std::move(parts)));
  }
  return matrices;
}

}  // namespace reprise::weights
