#include "reprise/weights/codecs/quantized_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/tensor/int8_panels.h"
#include "reprise/weights/codecs/panel_column.h"
#include "reprise/weights/convert.h"

namespace reprise::weights {
namespace {

constexpr uint16_t kMiddleOfByte = 128;

bool is_float16(float value) { return f16_to_f32(f32_to_f16(value)) == value; }

}  // namespace

void QuantizedMatrix::read_panels(std::span<std::byte>) const {
  REPRISE_ASSERT(false, "the matrix has no panels");
}

void IntegerMatrix::choose_panels(int bits,
                                  std::span<const float> scales,
                                  std::span<const uint16_t> zeros) {
  const auto fits = [&](PanelFormat format, int64_t group) {
    return depth() % panel_group_elements(format) == 0 && group_size_ % group == 0;
  };
  if (!group_of_.empty()) return;
  if (bits == 8) {
    const bool is_symmetric =
        std::ranges::all_of(zeros, [](uint16_t zero) { return zero == kMiddleOfByte; });
    if (is_symmetric && has_int8_rows_ && group_size_ >= depth() &&
        fits_int8_panels(outputs(), depth())) {
      panels_ = PanelFormat::int8_rows;
    } else if (is_symmetric && fits(PanelFormat::int8_g128, 128)) {
      panels_ = PanelFormat::int8_g128;
    }
    return;
  }
  if (!std::ranges::all_of(scales, is_float16)) return;
  if (fits(PanelFormat::int4_g128, 128)) {
    panels_ = PanelFormat::int4_g128;
  } else if (fits(PanelFormat::int4_g32, 32)) {
    panels_ = PanelFormat::int4_g32;
  }
}

void IntegerMatrix::read_group_order(const std::string& name) {
  require_tensor_shape(source(), name, {depth()});
  const std::vector<uint32_t> order = read_words(source(), name);
  bool is_neighbouring = true;
  for (size_t k = 0; k < order.size(); ++k) {
    if (std::cmp_greater_equal(order[k], num_groups())) {
      throw FileError(
          "E_VALUE",
          source().description(),
          visible(name),
          fmt::format(
              "element {} is in group {} of {}", k, static_cast<int32_t>(order[k]), num_groups()));
    }
    is_neighbouring = is_neighbouring && order[k] == k / static_cast<uint64_t>(group_size_);
  }
  if (!is_neighbouring) group_of_.assign(order.begin(), order.end());
}

void IntegerMatrix::read_rows(const OnRow& on_row) const {
  const Codes read = read_codes();
  std::vector<float> row(static_cast<size_t>(depth()));
  for (int64_t n = 0; n < outputs(); ++n) {
    for (int64_t k = 0; k < depth(); ++k) {
      const int64_t group = group_of_.empty() ? k / group_size_ : group_of_[static_cast<size_t>(k)];
      const auto at = static_cast<size_t>(n * num_groups() + group);
      const int code = read.codes[static_cast<size_t>(n * depth() + k)];
      row[static_cast<size_t>(k)] = read.scales[at] * static_cast<float>(code - read.zeros[at]);
    }
    on_row(n, row);
  }
}

void IntegerMatrix::read_panels(std::span<std::byte> dst) const {
  REPRISE_ASSERT(panels_.has_value(), "the matrix has no panels");
  const Codes read = read_codes();
  clear_unused_columns(*panels_, dst, depth(), outputs());
  const auto groups = static_cast<size_t>(num_groups());
  for (int64_t n = 0; n < outputs(); ++n) {
    const auto first = static_cast<size_t>(n) * groups;
    write_integer_row(*panels_,
                      dst,
                      n,
                      std::span(read.codes)
                          .subspan(static_cast<size_t>(n * depth()), static_cast<size_t>(depth())),
                      {.group_size = group_size_,
                       .scales = std::span(read.scales).subspan(first, groups),
                       .zeros = std::span(read.zeros).subspan(first, groups)});
  }
}

QuantizedMatrices::QuantizedMatrices(std::unique_ptr<WeightSource> source, MatrixMap matrices)
    : source_(std::move(source)), matrices_(std::move(matrices)) {
  std::set<std::string_view> parts;
  for (const auto& [name, matrix] : matrices_) {
    parts.insert(matrix->parts().begin(), matrix->parts().end());
    names_.push_back(name);
  }
  for (const std::string_view name : source_->names()) {
    if (!parts.contains(name)) names_.push_back(name);
  }
  std::sort(names_.begin(), names_.end());
}

const QuantizedMatrix* QuantizedMatrices::matrix_of(std::string_view name) const {
  const auto found = matrices_.find(name);
  return found == matrices_.end() ? nullptr : found->second.get();
}

const TensorSpec* QuantizedMatrices::find(std::string_view name) const {
  const QuantizedMatrix* matrix = matrix_of(name);
  return matrix != nullptr ? &matrix->spec() : source_->find(name);
}

void QuantizedMatrices::read(std::string_view name, DType dtype, std::span<std::byte> dst) const {
  const QuantizedMatrix* matrix = matrix_of(name);
  if (matrix == nullptr) return source_->read(name, dtype, dst);
  const size_t row_bytes = static_cast<size_t>(matrix->depth()) * dtype_bytes(dtype);
  REPRISE_ASSERT(dst.size() == static_cast<size_t>(matrix->outputs()) * row_bytes,
                 "{}: {} bytes for {}",
                 name,
                 dst.size(),
                 shape_text(matrix->spec().shape));
  matrix->read_rows([&](int64_t row, std::span<const float> values) {
    convert(DType::f32,
            std::as_bytes(values),
            dtype,
            dst.subspan(static_cast<size_t>(row) * row_bytes, row_bytes));
  });
}

std::optional<PanelFormat> QuantizedMatrices::panel_format(std::string_view name) const {
  const QuantizedMatrix* matrix = matrix_of(name);
  return matrix != nullptr ? matrix->panels() : source_->panel_format(name);
}

void QuantizedMatrices::read_panels(std::string_view name, std::span<std::byte> dst) const {
  const QuantizedMatrix* matrix = matrix_of(name);
  if (matrix == nullptr) return source_->read_panels(name, dst);
  matrix->read_panels(dst);
}

uint64_t QuantizedMatrices::stored_bytes(std::string_view name) const {
  const QuantizedMatrix* matrix = matrix_of(name);
  if (matrix == nullptr) return source_->stored_bytes(name);
  uint64_t bytes = 0;
  for (const std::string& part : matrix->parts()) bytes += source_->stored_bytes(part);
  return bytes;
}

std::string QuantizedMatrices::matrices_without_panels() const {
  const auto count = std::count_if(matrices_.begin(), matrices_.end(), [](const auto& entry) {
    return !entry.second->panels();
  });
  return count == 0 ? std::string()
                    : fmt::format("{} {}", count, count == 1 ? "matrix" : "matrices");
}

MatrixMap find_matrices(const WeightSource& source,
                        std::initializer_list<std::string_view> suffixes,
                        const MakeMatrix& make) {
  const std::string_view first = *suffixes.begin();
  MatrixMap matrices;
  for (const std::string_view name : source.names()) {
    if (!name.ends_with(first)) continue;
    const std::string module(name.substr(0, name.size() - first.size()));
    if (source.has(module + ".weight")) {
      throw FileError("E_DUPLICATE",
                      source.description(),
                      visible(module + ".weight"),
                      "is stored as numbers and quantised");
    }
    std::vector<std::string> parts;
    for (const std::string_view suffix : suffixes) {
      std::string part = module + std::string(suffix);
      if (source.has(part)) parts.push_back(std::move(part));
    }
    if (auto matrix = make(module, std::move(parts))) {
      matrices.emplace(module + ".weight", std::move(matrix));
    }
  }
  return matrices;
}

bool is_multiplied_whole(std::string_view name) {
  return std::ranges::none_of(std::array{".experts.", "embed", "wte.", "wpe."},
                              [&](const char* part) { return name.find(part) != name.npos; });
}

std::vector<std::byte> read_stored(const WeightSource& source, std::string_view name) {
  const TensorSpec& spec = require_tensor(source, name);
  std::vector<std::byte> bytes(size_bytes(spec));
  source.read(name, spec.dtype, bytes);
  return bytes;
}

std::vector<uint32_t> read_words(const WeightSource& source, std::string_view name) {
  const TensorSpec& spec = require_tensor(source, name);
  if (spec.dtype != DType::i32) {
    throw FileError("E_DTYPE",
                    source.description(),
                    visible(name),
                    fmt::format("is {}, expected int32", dtype_name(spec.dtype)));
  }
  std::vector<uint32_t> words(size_bytes(spec) / sizeof(uint32_t));
  source.read(name, DType::i32, std::as_writable_bytes(std::span(words)));
  return words;
}

std::vector<float> read_numbers(const WeightSource& source, std::string_view name) {
  const TensorSpec& spec = require_tensor(source, name);
  if (!is_convertible(spec.dtype, DType::f32)) {
    throw FileError(
        "E_DTYPE",
        source.description(),
        visible(name),
        fmt::format("is {}; expected float32, bfloat16 or float16", dtype_name(spec.dtype)));
  }
  std::vector<float> numbers(size_bytes(spec) / dtype_bytes(spec.dtype));
  source.read(name, DType::f32, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

const TensorSpec& require_tensor(const WeightSource& source, std::string_view name) {
  const TensorSpec* spec = source.find(name);
  if (spec == nullptr) {
    throw FileError("E_MISSING",
                    source.description(),
                    visible(name),
                    "a matrix that is stored quantised needs this tensor");
  }
  return *spec;
}

void fail_shape(const WeightSource& source, std::string_view name, std::string_view expected) {
  const TensorSpec& spec = require_tensor(source, name);
  throw FileError(
      "E_SHAPE",
      source.description(),
      visible(name),
      fmt::format(
          "is {} {}; expected {}", dtype_name(spec.dtype), shape_text(spec.shape), expected));
}

void require_tensor_shape(const WeightSource& source,
                          std::string_view name,
                          const std::vector<int64_t>& shape) {
  if (require_tensor(source, name).shape != shape) {
    fail_shape(
        source, name, fmt::format("{} by the other tensors of the matrix", shape_text(shape)));
  }
}

}  // namespace reprise::weights
