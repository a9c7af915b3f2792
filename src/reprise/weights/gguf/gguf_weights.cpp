#include "reprise/weights/gguf/gguf_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/expected_tensors.h"
#include "reprise/weights/gguf/dequantize.h"
#include "reprise/weights/gguf/pack_panels.h"
#include "reprise/weights/gguf/tensor_names.h"
#include "reprise/weights/panel_column.h"

namespace reprise::weights::gguf {
namespace {

DType stored_dtype(BlockFormat format) {
  if (format == BlockFormat::f16) return DType::f16;
  if (format == BlockFormat::bf16) return DType::bf16;
  return DType::f32;
}

bool is_quantised(BlockFormat format) {
  return format != BlockFormat::f32 && format != BlockFormat::f16 && format != BlockFormat::bf16;
}

// Turns rows of one tensor, as stored, into rows of one element type.
class RowDecoder {
 public:
  RowDecoder(const TensorInfo& tensor, ValueChange change, uint64_t row_elements, DType dtype)
      : tensor_(tensor), change_(change), dtype_(dtype) {
    if (is_quantised(tensor.format) || change != ValueChange::none) values_.resize(row_elements);
  }

  void decode(std::span<const std::byte> row, std::span<std::byte> dst) {
    const DType stored = stored_dtype(tensor_.format);
    if (values_.empty()) return convert(stored, row, dtype_, dst);
    if (is_quantised(tensor_.format)) {
      dequantize(tensor_.format, row, values_);
    } else {
      convert(stored, row, DType::f32, std::as_writable_bytes(std::span(values_)));
    }
    if (change_ == ValueChange::minus_one) {
      for (float& value : values_) value -= 1;
    } else if (change_ == ValueChange::log_of_negative) {
      for (float& value : values_) value = std::log(-value);
    }
    convert(DType::f32, std::as_bytes(std::span(values_)), dtype_, dst);
  }

 private:
  const TensorInfo& tensor_;
  ValueChange change_;
  DType dtype_;
  std::vector<float> values_;
};

std::vector<int64_t> without_ones(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

}  // namespace

GgufWeights::GgufWeights(std::shared_ptr<const GgufModel> model, const ModelConfig& config)
    : model_(std::move(model)),
      names_(decoder_tensors(config)),
      model_class_(architecture_name(config.architecture)),
      num_layers_(config.num_hidden_layers) {
  for (ExpectedTensor& tensor : expected_tensors(config)) {
    expected_shapes_.emplace(std::move(tensor.name), std::move(tensor.shape));
  }
  for (const std::unique_ptr<const GgufFile>& file : model_->files()) {
    for (const TensorInfo& tensor : file->tensors()) {
      if (!is_derived(tensor.name)) add(*file, tensor, config);
    }
  }
}

void GgufWeights::fail_unknown(const GgufFile& file, const TensorInfo& tensor) const {
  throw FileError("E_UNKNOWN",
                  file.path(),
                  visible(tensor.name),
                  fmt::format("{} has no such tensor; the file is of another model, or newer than "
                              "this program",
                              model_class_));
}

GgufWeights::Location GgufWeights::whole(const GgufFile& file, const TensorInfo& tensor) {
  Location location{
      .spec = {.dtype = stored_dtype(tensor.format), .shape = tensor.shape},
      .parts = {{.file = &file, .tensor = &tensor}},
      // A bias has a row per element: its rows are interleaved too.
      .is_list = tensor.shape.size() == 1 && block_size(tensor.format).num_elements == 1};
  location.parts.front().num_rows = tensor.bytes / location.row_bytes();
  return location;
}

void GgufWeights::add(const GgufFile& file, const TensorInfo& tensor, const ModelConfig& config) {
  if (const auto experts = find_expert_matrices(tensor.name, names_)) {
    if (config.moe) return add_experts(file, tensor, *experts, config);
  }
  const std::optional<CheckpointName> name = checkpoint_name(tensor.name, config, names_);
  if (!name) fail_unknown(file, tensor);
  Location location = whole(file, tensor);
  location.num_interleaved_heads = num_interleaved_heads(tensor.name, config);
  location.change = value_change(tensor.name, config);
  // Files leave out extents of 1: of a gate with one row, of a convolution with one input channel.
  const auto expected = expected_shapes_.find(name->name);
  if (expected != expected_shapes_.end() &&
      without_ones(tensor.shape) == without_ones(expected->second)) {
    location.spec.shape = expected->second;
  }
  add(name->name, location);
  const int64_t heads = location.num_interleaved_heads;
  if (heads != 0 && tensor.shape.front() % (2 * heads) != 0) {
    throw FileError(
        "E_SHAPE",
        file.path(),
        visible(tensor.name),
        fmt::format(
            "has {} rows, which are no pairs of rows for {} heads", tensor.shape.front(), heads));
  }
}

void GgufWeights::add_experts(const GgufFile& file,
                              const TensorInfo& tensor,
                              const ExpertMatricesName& experts,
                              const ModelConfig& config) {
  const int64_t num_experts = experts.expert ? 1 : config.moe->num_experts;
  std::vector<int64_t> matrix = tensor.shape;
  if (!experts.expert) matrix.erase(matrix.begin());
  const bool has_all = experts.expert || tensor.shape.front() == num_experts;
  if (matrix.size() != 2 || !has_all) {
    throw FileError("E_SHAPE",
                    file.path(),
                    visible(tensor.name),
                    fmt::format("has shape {}; expected a matrix for each of {} experts",
                                shape_text(tensor.shape),
                                num_experts));
  }
  for (int64_t i = 0; i < num_experts; ++i) {
    const int64_t expert = experts.expert.value_or(i);
    add(names_.in_expert(experts.layer, expert, experts.module) + ".weight",
        {.spec = {.dtype = stored_dtype(tensor.format), .shape = matrix},
         .parts = {{.file = &file,
                    .tensor = &tensor,
                    .first_row = static_cast<uint64_t>(i * matrix[0]),
                    .num_rows = static_cast<uint64_t>(matrix[0])}}});
  }
}

void GgufWeights::add(const std::string& name, const Location& location) {
  // The user may have asked for fewer layers than the file has.
  const bool is_behind = layer_of(location.tensor().name).value_or(0) >= num_layers_;
  if (!is_behind && !expected_shapes_.contains(name)) {
    fail_unknown(*location.parts.front().file, location.tensor());
  }
  const auto [entry, is_new] = tensors_.try_emplace(name, location);
  if (is_new) return;
  throw FileError("E_DUPLICATE",
                  location.parts.front().file->path(),
                  visible(location.tensor().name),
                  "is also stored in " + entry->second.parts.front().file->path());
}

const TensorSpec* GgufWeights::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second.spec;
}

std::vector<std::string_view> GgufWeights::names() const {
  std::vector<std::string_view> names;
  names.reserve(tensors_.size());
  for (const auto& [name, location] : tensors_) names.push_back(name);
  return names;
}

const GgufWeights::Location& GgufWeights::location_of(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw FileError("E_MISSING", model_->path(), visible(name), "no such tensor in this file");
  }
  return found->second;
}

void GgufWeights::for_each_row(const Location& location,
                               RowRange rows,
                               const TakeRow& take_row) const {
  const uint64_t row_bytes = location.row_bytes();
  const auto begin = static_cast<uint64_t>(rows.first);
  const uint64_t end = begin + static_cast<uint64_t>(rows.count);
  // Large enough to hide the system call, small enough for the second cache level. Rows that are
  // neighbours in the checkpoint lie apart where heads are interleaved.
  constexpr uint64_t kChunkBytes = uint64_t{256} << 10;
  const uint64_t most =
      location.num_interleaved_heads != 0 ? 1 : std::max<uint64_t>(kChunkBytes / row_bytes, 1);
  std::vector<std::byte> chunk(std::min(most, std::max<uint64_t>(end - begin, 1)) * row_bytes);
  uint64_t first = 0;  // row of the part
  for (const Part& part : location.parts) {
    const uint64_t last = std::min(end, first + part.num_rows);
    for (uint64_t row = std::max(begin, first); row < last;) {
      const uint64_t count = std::min(chunk.size() / row_bytes, last - row);
      const uint64_t in_part =
          location.num_interleaved_heads == 0
              ? row - first
              : static_cast<uint64_t>(stored_row(static_cast<int64_t>(row),
                                                 static_cast<int64_t>(part.num_rows),
                                                 location.num_interleaved_heads));
      const std::span<std::byte> bytes = std::span(chunk).first(count * row_bytes);
      part.file->read(*part.tensor, (part.first_row + in_part) * row_bytes, bytes);
      for (uint64_t i = 0; i < count; ++i) {
        take_row(row + i - begin, bytes.subspan(i * row_bytes, row_bytes));
      }
      row += count;
    }
    first += part.num_rows;
  }
}

void GgufWeights::read(std::string_view name, DType dtype, std::span<std::byte> dst) const {
  const RowRange all{.first = 0, .count = static_cast<int64_t>(location_of(name).num_rows())};
  read_rows(name, all, dtype, dst);
}

bool GgufWeights::reads_rows(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found != tensors_.end() && found->second.spec.shape.size() == 2;
}

void GgufWeights::read_rows(std::string_view name,
                            RowRange rows,
                            DType dtype,
                            std::span<std::byte> dst) const {
  const Location& location = location_of(name);
  const TensorInfo& tensor = location.tensor();
  if (!is_convertible(location.spec.dtype, dtype)) {
    throw FileError("E_DTYPE",
                    location.parts.front().file->path(),
                    visible(tensor.name),
                    fmt::format("is stored as {} and cannot be read as {}",
                                block_format_name(tensor.format),
                                dtype_name(dtype)));
  }
  const uint64_t dst_bytes = location.row_elements() * dtype_bytes(dtype);
  REPRISE_ASSERT(dst.size() == static_cast<uint64_t>(rows.count) * dst_bytes,
                 "{}: rows of {} bytes into {} bytes",
                 name,
                 dst_bytes,
                 dst.size());
  RowDecoder decoder(tensor, location.change, location.row_elements(), dtype);
  for_each_row(location, rows, [&](uint64_t row, std::span<const std::byte> stored) {
    decoder.decode(stored, dst.subspan(row * dst_bytes, dst_bytes));
  });
}

std::optional<PanelFormat> GgufWeights::panel_format(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::nullopt;
  const Location& location = found->second;
  if (location.spec.shape.size() != 2 || location.change != ValueChange::none) return std::nullopt;
  return panel_format_of(location.tensor().format);
}

void GgufWeights::read_panels(std::string_view name, std::span<std::byte> dst) const {
  read_panel_rows(name, {.first = 0, .count = location_of(name).spec.shape[0]}, dst);
}

void GgufWeights::read_panel_rows(std::string_view name,
                                  RowRange rows,
                                  std::span<std::byte> dst) const {
  const Location& location = location_of(name);
  const std::optional<PanelFormat> format = panel_format(name);
  REPRISE_ASSERT(format.has_value(), "{}: the tensor has no panels", name);
  const int64_t depth = location.spec.shape[1];
  REPRISE_ASSERT(dst.size() == static_cast<uint64_t>(panel_bytes(*format, rows.count, depth)),
                 "{}: panels of {} bytes into {} bytes",
                 name,
                 panel_bytes(*format, rows.count, depth),
                 dst.size());
  clear_unused_columns(*format, dst, depth, rows.count);
  for_each_row(location, rows, [&](uint64_t row, std::span<const std::byte> stored) {
    pack_row(location.tensor().format, stored, static_cast<int64_t>(row), dst);
  });
}

std::string GgufWeights::formats_without_panels() const {
  std::map<BlockFormat, int> counts;
  for (const auto& [name, location] : tensors_) {
    const BlockFormat format = location.tensor().format;
    if (is_quantised(format) && !panel_format(name)) ++counts[format];
  }
  std::string text;
  for (const auto& [format, count] : counts) {
    text += fmt::format("{}{} tensor{} in {}",
                        text.empty() ? "" : ", ",
                        count,
                        count == 1 ? "" : "s",
                        block_format_name(format));
  }
  return text;
}

}  // namespace reprise::weights::gguf
