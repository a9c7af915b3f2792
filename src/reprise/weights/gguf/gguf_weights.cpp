#include "reprise/weights/gguf/gguf_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/weights/convert.h"
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
  RowDecoder(const TensorInfo& tensor, DType stored, DType dtype)
      : tensor_(tensor), stored_(stored), dtype_(dtype) {
    if (is_quantised(tensor.format)) values_.resize(static_cast<size_t>(tensor.row_elements()));
  }

  void decode(std::span<const std::byte> row, std::span<std::byte> dst) {
    if (values_.empty()) return convert(stored_, row, dtype_, dst);
    dequantize(tensor_.format, row, values_);
    convert(DType::f32, std::as_bytes(std::span(values_)), dtype_, dst);
  }

 private:
  const TensorInfo& tensor_;
  DType stored_;
  DType dtype_;
  std::vector<float> values_;
};

}  // namespace

GgufWeights::GgufWeights(std::shared_ptr<const GgufModel> model, const ModelConfig& config)
    : model_(std::move(model)) {
  for (const std::unique_ptr<const GgufFile>& file : model_->files()) {
    for (const TensorInfo& tensor : file->tensors()) add(*file, tensor, config);
  }
}

void GgufWeights::add(const GgufFile& file, const TensorInfo& tensor, const ModelConfig& config) {
  // Part of the rotary embedding: ModelConfig has it.
  if (tensor.name == kRopeFactorsTensor) return;
  const DecoderTensors names = decoder_tensors(config);
  if (const auto experts = find_expert_matrices(tensor.name, names)) {
    if (config.moe) return add_experts(file, tensor, *experts, config);
  }
  Location location{.spec = {.dtype = stored_dtype(tensor.format), .shape = tensor.shape},
                    .file = &file,
                    .tensor = &tensor,
                    .num_interleaved_heads = num_interleaved_heads(tensor.name, config)};
  // Files have the gate of a shared expert as a vector, checkpoints as a matrix with one row.
  if (tensor.name.ends_with(".ffn_gate_inp_shexp.weight") && tensor.shape.size() == 1) {
    location.spec.shape = {1, tensor.shape[0]};
  }
  add(hugging_face_name(tensor.name, names, config.architecture), location);
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
  const DecoderTensors names = decoder_tensors(config);
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
    add(names.in_expert(experts.layer, expert, experts.module) + ".weight",
        {.spec = {.dtype = stored_dtype(tensor.format), .shape = matrix},
         .file = &file,
         .tensor = &tensor,
         .first_row = static_cast<uint64_t>(i * matrix[0]),
         .num_experts = static_cast<uint64_t>(num_experts)});
  }
}

void GgufWeights::add(const std::string& name, const Location& location) {
  const auto [entry, is_new] = tensors_.try_emplace(name, location);
  if (is_new) return;
  throw FileError("E_DUPLICATE",
                  location.file->path(),
                  visible(location.tensor->name),
                  "is also stored in " + entry->second.file->path());
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
  const TensorInfo& tensor = *location.tensor;
  const uint64_t row_bytes = location.row_bytes();
  const auto count = static_cast<uint64_t>(rows.count);
  const auto first = location.first_row + static_cast<uint64_t>(rows.first);
  // Large enough to hide the system call, small enough for the second cache level. Rows that are
  // neighbours in the checkpoint lie apart where heads are interleaved.
  constexpr uint64_t kChunkBytes = uint64_t{256} << 10;
  const uint64_t chunk_rows =
      location.num_interleaved_heads != 0
          ? 1
          : std::clamp<uint64_t>(kChunkBytes / row_bytes, 1, std::max<uint64_t>(count, 1));
  std::vector<std::byte> chunk(chunk_rows * row_bytes);
  for (uint64_t row = 0; row < count; ++row) {
    const uint64_t in_chunk = row % chunk_rows;
    if (in_chunk == 0) {
      const uint64_t in_file =
          location.num_interleaved_heads == 0
              ? first + row
              : static_cast<uint64_t>(stored_row(rows.first + static_cast<int64_t>(row),
                                                 static_cast<int64_t>(location.num_rows()),
                                                 location.num_interleaved_heads));
      const uint64_t wanted = std::min(chunk_rows, count - row);
      location.file->read(tensor, in_file * row_bytes, std::span(chunk).first(wanted * row_bytes));
    }
    take_row(row, std::span(chunk).subspan(in_chunk * row_bytes, row_bytes));
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
  const TensorInfo& tensor = *location.tensor;
  if (!is_convertible(location.spec.dtype, dtype)) {
    throw FileError("E_DTYPE",
                    location.file->path(),
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
  RowDecoder decoder(tensor, location.spec.dtype, dtype);
  for_each_row(location, rows, [&](uint64_t row, std::span<const std::byte> stored) {
    decoder.decode(stored, dst.subspan(row * dst_bytes, dst_bytes));
  });
}

std::optional<PanelFormat> GgufWeights::panel_format(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::nullopt;
  const TensorInfo& tensor = *found->second.tensor;
  return found->second.spec.shape.size() == 2 ? panel_format_of(tensor.format) : std::nullopt;
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
    pack_row(location.tensor->format, stored, static_cast<int64_t>(row), dst);
  });
}

std::string GgufWeights::formats_without_panels() const {
  std::map<BlockFormat, int> counts;
  for (const auto& [name, location] : tensors_) {
    if (is_quantised(location.tensor->format) && !panel_format(name)) {
      ++counts[location.tensor->format];
    }
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
