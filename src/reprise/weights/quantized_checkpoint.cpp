#include "reprise/weights/quantized_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/panel_column.h"

namespace reprise::weights {
namespace {

constexpr int kWordBits = 32;
constexpr std::string_view kCodes = ".qweight";

// AWQ: place p of a word holds the code of output 8w + kAwqOrder[p].
constexpr std::array<int64_t, 8> kAwqOrder = {0, 2, 4, 6, 1, 3, 5, 7};

bool ends_one_of(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view ending) {
    return name.ends_with(ending);
  });
}

}  // namespace

struct QuantizedCheckpoint::Unpacked {
  int64_t depth = 0;
  int64_t outputs = 0;
  std::vector<uint8_t> codes;   // [outputs, depth]
  std::vector<uint16_t> zeros;  // [groups, outputs]
  std::vector<float> scales;    // [groups, outputs]
};

QuantizedCheckpoint::QuantizedCheckpoint(std::unique_ptr<WeightSource> source,
                                         const QuantizationConfig& config)
    : source_(std::move(source)), config_(config) {
  for (const std::string_view name : source_->names()) {
    if (name.ends_with(kCodes)) add(name.substr(0, name.size() - kCodes.size()));
  }
  for (const std::string_view name : source_->names()) {
    const bool is_part = ends_one_of(name, {kCodes, ".qzeros", ".scales", ".g_idx"});
    const std::string_view module = name.substr(0, name.rfind('.'));
    if (!is_part || !matrices_.contains(std::string(module) + ".weight")) names_.push_back(name);
  }
  for (const auto& [name, matrix] : matrices_) names_.push_back(name);
  std::sort(names_.begin(), names_.end());
}

const TensorSpec& QuantizedCheckpoint::required(const std::string& name) const {
  const TensorSpec* spec = source_->find(name);
  if (spec == nullptr) {
    throw FileError("E_MISSING",
                    source_->description(),
                    visible(name),
                    fmt::format("a matrix that is quantised with {} needs this tensor",
                                quantization_method_name(config_.method)));
  }
  return *spec;
}

void QuantizedCheckpoint::require_shape(const std::string& name,
                                        const std::vector<int64_t>& shape) const {
  const TensorSpec& spec = required(name);
  if (spec.shape != shape) {
    throw FileError("E_SHAPE",
                    source_->description(),
                    visible(name),
                    fmt::format("is {}, the other tensors of the matrix need {}",
                                shape_text(spec.shape),
                                shape_text(shape)));
  }
}

int64_t QuantizedCheckpoint::group_size(const Matrix& matrix) const {
  return config_.group_size == 0 ? matrix.spec.shape[1] : config_.group_size;
}

void QuantizedCheckpoint::add(std::string_view module) {
  const std::string prefix(module);
  const std::string codes_name = prefix + std::string(kCodes);
  const TensorSpec& codes = required(codes_name);
  const TensorSpec& scales = required(prefix + ".scales");
  const int64_t per_word = kWordBits / config_.bits;
  const bool packs_outputs = config_.method == QuantizationMethod::awq;
  const auto is_matrix = [](const TensorSpec& spec) {
    return spec.shape.size() == 2 && spec.shape[0] > 0 && spec.shape[1] > 0;
  };
  constexpr int64_t kMost = int64_t{1} << 31;
  if (codes.dtype != DType::i32 || !is_matrix(codes) || !is_matrix(scales) ||
      codes.shape[0] > kMost || codes.shape[1] > kMost) {
    throw FileError("E_SHAPE",
                    source_->description(),
                    visible(codes_name),
                    fmt::format("is {} {} with scales {}; expected int32 of two dimensions",
                                dtype_name(codes.dtype),
                                shape_text(codes.shape),
                                shape_text(scales.shape)));
  }
  Matrix matrix{.spec = {.dtype = DType::f16,
                         .shape = {codes.shape[1] * (packs_outputs ? per_word : 1),
                                   codes.shape[0] * (packs_outputs ? 1 : per_word)}},
                .module = prefix};
  const int64_t outputs = matrix.spec.shape[0];
  const int64_t depth = matrix.spec.shape[1];
  matrix.num_groups = (depth + group_size(matrix) - 1) / group_size(matrix);
  require_shape(prefix + ".scales", {matrix.num_groups, outputs});
  require_shape(prefix + ".qzeros", {matrix.num_groups, (outputs + per_word - 1) / per_word});
  if (source_->has(prefix + ".weight")) {
    throw FileError("E_DUPLICATE",
                    source_->description(),
                    visible(prefix + ".weight"),
                    "is stored as numbers and quantised");
  }
  if (source_->has(prefix + ".g_idx")) read_group_order(matrix, prefix + ".g_idx");
  matrix.panels = panels_of(matrix);
  matrices_.emplace(prefix + ".weight", std::move(matrix));
}

void QuantizedCheckpoint::read_group_order(Matrix& matrix, const std::string& name) const {
  require_shape(name, {matrix.spec.shape[1]});
  const std::vector<uint32_t> order = words_of(name);
  const int64_t size = group_size(matrix);
  bool is_neighbouring = true;
  for (size_t k = 0; k < order.size(); ++k) {
    if (std::cmp_greater_equal(order[k], matrix.num_groups)) {
      throw FileError("E_VALUE",
                      source_->description(),
                      visible(name),
                      fmt::format("element {} is in group {} of {}",
                                  k,
                                  static_cast<int32_t>(order[k]),
                                  matrix.num_groups));
    }
    is_neighbouring = is_neighbouring && order[k] == k / static_cast<uint64_t>(size);
  }
  if (!is_neighbouring) matrix.group_of.assign(order.begin(), order.end());
}

std::optional<PanelFormat> QuantizedCheckpoint::panels_of(const Matrix& matrix) const {
  const TensorSpec& scales = *source_->find(matrix.module + ".scales");
  if (!matrix.group_of.empty()) return std::nullopt;
  const int64_t depth = matrix.spec.shape[1];
  const auto fits = [&](PanelFormat format, int64_t group) {
    return depth % panel_group_elements(format) == 0 && group_size(matrix) % group == 0;
  };
  if (config_.bits == 8) {
    // Scales of this format are float32; zeros are 128, as of all symmetric checkpoints.
    const std::vector<uint16_t> zeros = zeros_of(matrix);
    const bool is_symmetric =
        std::all_of(zeros.begin(), zeros.end(), [](uint16_t zero) { return zero == 128; });
    return is_symmetric && fits(PanelFormat::int8_g128, 128) ? std::optional(PanelFormat::int8_g128)
                                                             : std::nullopt;
  }
  if (scales.dtype != DType::f16) return std::nullopt;
  if (fits(PanelFormat::int4_g128, 128)) return PanelFormat::int4_g128;
  if (fits(PanelFormat::int4_g32, 32)) return PanelFormat::int4_g32;
  return std::nullopt;
}

std::vector<uint32_t> QuantizedCheckpoint::words_of(const std::string& name) const {
  const TensorSpec& spec = required(name);
  if (spec.dtype != DType::i32) {
    throw FileError("E_DTYPE",
                    source_->description(),
                    visible(name),
                    fmt::format("is {}, expected int32", dtype_name(spec.dtype)));
  }
  std::vector<uint32_t> words(size_bytes(spec) / sizeof(uint32_t));
  source_->read(name, DType::i32, std::as_writable_bytes(std::span(words)));
  return words;
}

std::vector<uint16_t> QuantizedCheckpoint::zeros_of(const Matrix& matrix) const {
  const std::vector<uint32_t> words = words_of(matrix.module + ".qzeros");
  const int64_t outputs = matrix.spec.shape[0];
  const int64_t per_word = kWordBits / config_.bits;
  const uint32_t mask = (1U << config_.bits) - 1;
  const int64_t row_words = (outputs + per_word - 1) / per_word;
  std::vector<uint16_t> zeros(static_cast<size_t>(matrix.num_groups * outputs));
  for (int64_t g = 0; g < matrix.num_groups; ++g) {
    for (int64_t n = 0; n < row_words * per_word; ++n) {
      const int64_t place = n % per_word;
      const bool is_awq = config_.method == QuantizationMethod::awq;
      const int64_t output = n - place + (is_awq ? kAwqOrder[static_cast<size_t>(place)] : place);
      if (output >= outputs) continue;
      const uint32_t word = words[static_cast<size_t>(g * row_words + n / per_word)];
      const uint32_t zero = word >> (place * config_.bits) & mask;
      zeros[static_cast<size_t>(g * outputs + output)] =
          static_cast<uint16_t>(config_.stores_zeros_minus_1 ? zero + 1 : zero);
    }
  }
  return zeros;
}

QuantizedCheckpoint::Unpacked QuantizedCheckpoint::unpack(const Matrix& matrix) const {
  Unpacked to{.outputs = matrix.spec.shape[0]};
  to.depth = matrix.spec.shape[1];
  to.codes.resize(static_cast<size_t>(to.outputs * to.depth));
  const std::vector<uint32_t> words = words_of(matrix.module + std::string(kCodes));
  const int64_t per_word = kWordBits / config_.bits;
  const uint32_t mask = (1U << config_.bits) - 1;
  const auto code = [&](uint32_t word, int64_t place) {
    return static_cast<uint8_t>(word >> (place * config_.bits) & mask);
  };
  if (config_.method == QuantizationMethod::gptq) {
    for (int64_t k = 0; k < to.depth; k += per_word) {
      for (int64_t n = 0; n < to.outputs; ++n) {
        const uint32_t word = words[static_cast<size_t>(k / per_word * to.outputs + n)];
        uint8_t* codes = to.codes.data() + n * to.depth + k;
        for (int64_t p = 0; p < per_word; ++p) codes[p] = code(word, p);
      }
    }
  } else {
    const int64_t row_words = to.outputs / per_word;
    for (int64_t w = 0; w < row_words; ++w) {
      for (int64_t k = 0; k < to.depth; ++k) {
        const uint32_t word = words[static_cast<size_t>(k * row_words + w)];
        for (int64_t p = 0; p < per_word; ++p) {
          const int64_t n = w * per_word + kAwqOrder[static_cast<size_t>(p)];
          to.codes[static_cast<size_t>(n * to.depth + k)] = code(word, p);
        }
      }
    }
  }
  to.zeros = zeros_of(matrix);
  to.scales.resize(to.zeros.size());
  source_->read(
      matrix.module + ".scales", DType::f32, std::as_writable_bytes(std::span(to.scales)));
  return to;
}

const QuantizedCheckpoint::Matrix* QuantizedCheckpoint::matrix_of(std::string_view name) const {
  const auto found = matrices_.find(name);
  return found == matrices_.end() ? nullptr : &found->second;
}

const TensorSpec* QuantizedCheckpoint::find(std::string_view name) const {
  const Matrix* matrix = matrix_of(name);
  return matrix != nullptr ? &matrix->spec : source_->find(name);
}

std::vector<std::string_view> QuantizedCheckpoint::names() const { return names_; }

void QuantizedCheckpoint::read(std::string_view name, DType dtype, std::span<std::byte> dst) const {
  const Matrix* matrix = matrix_of(name);
  if (matrix == nullptr) return source_->read(name, dtype, dst);
  const Unpacked unpacked = unpack(*matrix);
  const int64_t size = group_size(*matrix);
  std::vector<float> row(static_cast<size_t>(unpacked.depth));
  const size_t row_bytes = row.size() * dtype_bytes(dtype);
  for (int64_t n = 0; n < unpacked.outputs; ++n) {
    for (int64_t k = 0; k < unpacked.depth; ++k) {
      const int64_t group =
          matrix->group_of.empty() ? k / size : matrix->group_of[static_cast<size_t>(k)];
      const auto at = static_cast<size_t>(group * unpacked.outputs + n);
      const int code = unpacked.codes[static_cast<size_t>(n * unpacked.depth + k)];
      row[static_cast<size_t>(k)] =
          unpacked.scales[at] * static_cast<float>(code - int{unpacked.zeros[at]});
    }
    convert(DType::f32,
            std::as_bytes(std::span(row)),
            dtype,
            dst.subspan(static_cast<size_t>(n) * row_bytes, row_bytes));
  }
}

std::optional<PanelFormat> QuantizedCheckpoint::panel_format(std::string_view name) const {
  const Matrix* matrix = matrix_of(name);
  return matrix != nullptr ? matrix->panels : source_->panel_format(name);
}

void QuantizedCheckpoint::read_panels(std::string_view name, std::span<std::byte> dst) const {
  const Matrix* matrix = matrix_of(name);
  if (matrix == nullptr) return source_->read_panels(name, dst);
  REPRISE_ASSERT(matrix->panels.has_value(), "{}: the matrix has no panels", name);
  const PanelFormat format = *matrix->panels;
  const Unpacked unpacked = unpack(*matrix);
  const int64_t head_elements = panel_group_elements(format);
  clear_unused_columns(format, dst, unpacked.depth, unpacked.outputs);
  for (int64_t n = 0; n < unpacked.outputs; ++n) {
    PanelColumn column(format, dst, unpacked.depth, n);
    for (int64_t k = 0; k < unpacked.depth; k += kPanelBlock) {
      column.write_codes(k / kPanelBlock, unpacked.codes.data() + n * unpacked.depth + k);
      if (k % head_elements != 0) continue;
      const int64_t head = k / head_elements;
      const auto at = static_cast<size_t>(k / group_size(*matrix) * unpacked.outputs + n);
      if (format == PanelFormat::int8_g128) {
        column.write_head(head, 0, unpacked.scales[at]);
      } else {
        column.write_head(head, 0, Float16{f32_to_f16(unpacked.scales[at])});
        column.write_head(head, 2 * kPanelColumns, static_cast<uint8_t>(unpacked.zeros[at]));
      }
    }
  }
}

uint64_t QuantizedCheckpoint::stored_bytes(std::string_view name) const {
  const Matrix* matrix = matrix_of(name);
  if (matrix == nullptr) return source_->stored_bytes(name);
  uint64_t bytes = 0;
  for (const char* part : {".qweight", ".qzeros", ".scales", ".g_idx"}) {
    const std::string part_name = matrix->module + part;
    if (source_->has(part_name)) bytes += source_->stored_bytes(part_name);
  }
  return bytes;
}

std::string QuantizedCheckpoint::matrices_without_panels() const {
  const auto count = std::count_if(
      matrices_.begin(), matrices_.end(), [](const auto& entry) { return !entry.second.panels; });
  return count == 0 ? std::string()
                    : fmt::format("{} {}", count, count == 1 ? "matrix" : "matrices");
}

}  // namespace reprise::weights
