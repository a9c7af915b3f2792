#include "reprise/weights/gguf/gguf_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/weights/codecs/panel_column.h"
#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/gguf/pack_panels.h"
#include "reprise/weights/gguf/row_decoder.h"
#include "reprise/weights/gguf/tensor_names.h"

namespace reprise::weights::gguf {
namespace {

std::vector<int64_t> without_ones(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

int64_t num_elements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Files leave out extents of 1: of a gate with one row, and of a convolution with one input
// channel. A recurrence's norm has its groups as a dimension there.
bool is_same_but_for_form(const std::vector<int64_t>& stored,
                          const std::vector<int64_t>& expected) {
  return without_ones(stored) == without_ones(expected) ||
         (expected.size() == 1 && num_elements(stored) == expected.front());
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
  const int64_t end = model_->end_of_layers();
  for (const std::unique_ptr<const GgufFile>& file : model_->files()) {
    for (const TensorInfo& tensor : file->tensors()) {
      const bool is_used = layer_of(tensor.name).value_or(0) < end && !is_derived(tensor.name);
      if (is_used) add(*file, tensor, config);
    }
  }
  for (const auto& [name, halves] : halves_) add(name, join(name, halves));
  halves_.clear();
}

void GgufWeights::fail_unknown(const GgufFile& file, const TensorInfo& tensor) const {
  throw FileError("E_UNKNOWN",
                  file.path(),
                  visible(tensor.name),
                  fmt::format("{} has no such tensor; the file is of another model, or newer than "
                              "this program",
                              model_class_));
}

void GgufWeights::fail_shape(const Location& location, std::string_view message) {
  throw FileError("E_SHAPE",
                  location.parts.front().file->path(),
                  visible(location.tensor().name),
                  fmt::format("has shape {}; {}", shape_text(location.tensor().shape), message));
}

GgufWeights::Location GgufWeights::whole(const GgufFile& file, const TensorInfo& tensor) {
  Location location{
      .spec = {.dtype = stored_dtype(tensor.format), .shape = tensor.shape},
      .parts = {{.file = &file, .tensor = &tensor}},
      // A bias has one element per row, so its elements are interleaved like rows.
      .is_list = tensor.shape.size() == 1 && block_size(tensor.format).num_elements == 1};
  location.row_elements = location.is_list ? 1 : static_cast<uint64_t>(tensor.row_elements());
  Part& part = location.parts.front();
  part.num_rows = tensor.bytes / location.row_bytes(part);
  return location;
}

void GgufWeights::add(const GgufFile& file, const TensorInfo& tensor, const ModelConfig& config) {
  if (const auto experts = find_expert_matrices(tensor.name, names_)) {
    if (config.moe && !config.moe->is_stacked) return add_experts(file, tensor, *experts, config);
  }
  const std::optional<CheckpointName> name = checkpoint_name(tensor.name, config, names_);
  if (!name) fail_unknown(file, tensor);
  Location location = whole(file, tensor);
  if (name->rows != RowsOfGroup::all) {
    Halves& halves = halves_[name->name];
    halves.num_groups = name->num_groups;
    if (name->rows == RowsOfGroup::first) halves.pieces = name->pieces;
    std::optional<Location>& half = name->rows == RowsOfGroup::first ? halves.first : halves.last;
    if (half) fail_twice(location, *half);
    location.parts.front().is_transposed = name->is_transposed;
    half = std::move(location);
    return;
  }
  location.num_interleaved_heads = num_interleaved_heads(tensor.name, config);
  location.change = value_change(tensor.name, config);
  const int64_t heads = location.num_interleaved_heads;
  if (heads != 0 && tensor.shape.front() % (2 * heads) != 0) {
    fail_shape(location, fmt::format("these are not pairs of rows for {} heads", heads));
  }
  const auto expected = expected_shapes_.find(name->name);
  if (expected != expected_shapes_.end() && is_same_but_for_form(tensor.shape, expected->second)) {
    location.spec.shape = expected->second;
  }
  if (name->num_groups != 1 && tensor.shape.size() == 3) {
    location.rows_per_matrix = static_cast<uint64_t>(tensor.shape[1]);
  }
  add(name->name, location);
}

void GgufWeights::add_rows_of_group(const Location& half,
                                    uint64_t group,
                                    const Halves& halves,
                                    Location& joined) {
  const auto groups = static_cast<uint64_t>(halves.num_groups);
  Part part = half.parts.front();
  part.shares = groups;
  const std::vector<int64_t>& shape = part.tensor->shape;
  const auto elements = static_cast<uint64_t>(num_elements(shape));
  if (part.is_transposed) {
    const bool fits = shape.size() == 3 && shape[0] == halves.num_groups &&
                      std::cmp_equal(shape[1], joined.row_elements);
    if (!fits) fail_shape(half, fmt::format("expected a matrix for each of {} heads", groups));
    part.first_row = group * joined.row_elements;
    part.num_rows = static_cast<uint64_t>(shape[2]);
    joined.parts.push_back(part);
    return;
  }
  // Matrices for several groups are one matrix in the file, with the rows of all groups.
  const bool has_whole_rows = joined.is_list ? !is_quantised(part.tensor->format)
                                             : std::cmp_equal(shape.back(), joined.row_elements);
  const uint64_t rows = elements / joined.row_elements / groups;
  std::vector<int64_t> pieces = {static_cast<int64_t>(rows)};
  if (&half == &*halves.first && !halves.pieces.empty()) pieces = halves.pieces;
  const auto sum = static_cast<uint64_t>(std::accumulate(pieces.begin(), pieces.end(), int64_t{0}));
  if (!has_whole_rows || rows * groups * joined.row_elements != elements || sum != rows) {
    fail_shape(
        half,
        fmt::format("expected rows of {} for each of {} groups", joined.row_elements, groups));
  }
  uint64_t before = 0;
  for (const int64_t piece : pieces) {
    part.num_rows = static_cast<uint64_t>(piece);
    part.first_row = before + group * part.num_rows;
    before += groups * part.num_rows;
    joined.parts.push_back(part);
  }
}

GgufWeights::Location GgufWeights::join(const std::string& name, const Halves& halves) const {
  const Location& any = halves.first ? *halves.first : *halves.last;
  if (!halves.first || !halves.last) {
    throw FileError("E_MISSING",
                    any.parts.front().file->path(),
                    visible(any.tensor().name),
                    "is one of two tensors that belong together, and the other one is not there");
  }
  const auto expected = expected_shapes_.find(name);
  if (expected == expected_shapes_.end()) fail_unknown(*any.parts.front().file, any.tensor());
  const std::vector<int64_t>& shape = expected->second;
  Location joined{.spec = {.dtype = any.spec.dtype, .shape = shape}, .parts = {}};
  // A bias of stacked experts has several elements for each expert.
  joined.is_list = halves.num_groups != 1 && shape.size() == 2 && shape[0] == halves.num_groups;
  joined.row_elements = joined.is_list ? 1 : static_cast<uint64_t>(shape.back());
  if (shape.size() == 3) joined.rows_per_matrix = static_cast<uint64_t>(shape[1]);
  for (uint64_t group = 0; std::cmp_less(group, halves.num_groups); ++group) {
    add_rows_of_group(*halves.first, group, halves, joined);
    add_rows_of_group(*halves.last, group, halves, joined);
  }
  if (joined.num_rows() * joined.row_elements != static_cast<uint64_t>(num_elements(shape))) {
    fail_shape(any,
               fmt::format("together with {} {} it does not make {}",
                           halves.last->tensor().name,
                           shape_text(halves.last->tensor().shape),
                           shape_text(shape)));
  }
  return joined;
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
  const bool has_two = !experts.second_module.empty();
  if (has_two && matrix[0] % 2 != 0) {
    fail_shape(whole(file, tensor), "expected as many rows of the gate as of up in each matrix");
  }
  const int64_t rows = has_two ? matrix[0] / 2 : matrix[0];
  const auto add_matrix = [&](int64_t expert, std::string_view module, int64_t first_row) {
    add(names_.in_expert(experts.layer, expert, module) + ".weight",
        {.spec = {.dtype = stored_dtype(tensor.format), .shape = {rows, matrix[1]}},
         .parts = {{.file = &file,
                    .tensor = &tensor,
                    .first_row = static_cast<uint64_t>(first_row),
                    .num_rows = static_cast<uint64_t>(rows),
                    .shares = static_cast<uint64_t>(has_two ? 2 * num_experts : num_experts)}},
         .row_elements = static_cast<uint64_t>(matrix[1])});
  };
  for (int64_t i = 0; i < num_experts; ++i) {
    const int64_t expert = experts.expert.value_or(i);
    add_matrix(expert, experts.module, i * matrix[0]);
    if (has_two) add_matrix(expert, experts.second_module, i * matrix[0] + rows);
  }
}

void GgufWeights::add(const std::string& name, const Location& location) {
  // The user may have asked for fewer layers than the file has, so a later layer is no error.
  const bool is_behind = layer_of(location.tensor().name).value_or(0) >= num_layers_;
  if (!is_behind && !expected_shapes_.contains(name)) {
    fail_unknown(*location.parts.front().file, location.tensor());
  }
  const auto [entry, is_new] = tensors_.try_emplace(name, location);
  if (!is_new) fail_twice(location, entry->second);
}

void GgufWeights::fail_twice(const Location& location, const Location& other) {
  throw FileError("E_DUPLICATE",
                  location.parts.front().file->path(),
                  visible(location.tensor().name),
                  "is also stored in " + other.parts.front().file->path());
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
  const auto begin = static_cast<uint64_t>(rows.first);
  const uint64_t end = begin + static_cast<uint64_t>(rows.count);
  // Large enough to hide the system call, and small enough for the second cache level. Rows that
  // are neighbours in the checkpoint are apart in the file if heads are interleaved.
  constexpr uint64_t kChunkBytes = uint64_t{256} << 10;
  std::vector<std::byte> chunk;
  uint64_t first = 0;  // row of the part
  for (const Part& part : location.parts) {
    const uint64_t row_bytes = location.row_bytes(part);
    const uint64_t most =
        location.num_interleaved_heads != 0 ? 1 : std::max<uint64_t>(kChunkBytes / row_bytes, 1);
    const uint64_t last = std::min(end, first + part.num_rows);
    for (uint64_t row = std::max(begin, first); row < last;) {
      const uint64_t count = std::min(most, last - row);
      const uint64_t in_part =
          location.num_interleaved_heads == 0
              ? row - first
              : static_cast<uint64_t>(stored_row(static_cast<int64_t>(row),
                                                 static_cast<int64_t>(part.num_rows),
                                                 location.num_interleaved_heads));
      chunk.resize(count * row_bytes);
      part.file->read(*part.tensor, (part.first_row + in_part) * row_bytes, chunk);
      for (uint64_t i = 0; i < count; ++i) {
        take_row(row + i - begin, std::span(chunk).subspan(i * row_bytes, row_bytes), part);
      }
      row += count;
    }
    first += part.num_rows;
  }
}

// The rows are columns of the file's matrices, so each matrix is read as a whole.
void GgufWeights::read_whole_transposed(const Location& location,
                                        DType dtype,
                                        std::span<std::byte> dst) const {
  std::vector<float> values(location.num_rows() * location.row_elements);
  uint64_t first = 0;
  for (const Part& part : location.parts) {
    const Location stored{
        .spec = {},
        .parts = {{.file = part.file,
                   .tensor = part.tensor,
                   .first_row = part.first_row,
                   .num_rows = part.is_transposed ? location.row_elements : part.num_rows}}};
    const auto columns = static_cast<uint64_t>(part.tensor->row_elements());
    RowDecoder decoder(model_->path(), ValueChange::none, columns, dtype);
    const RowRange all{.first = 0, .count = static_cast<int64_t>(stored.num_rows())};
    for_each_row(stored, all, [&](uint64_t row, std::span<const std::byte> bytes, const Part&) {
      const std::span<const float> floats = decoder.floats(*part.tensor, bytes);
      for (uint64_t column = 0; column < columns; ++column) {
        const uint64_t at = part.is_transposed ? (first + column) * location.row_elements + row
                                               : (first + row) * location.row_elements + column;
        values[at] = floats[column];
      }
    });
    first += part.num_rows;
  }
  convert(DType::f32, std::as_bytes(std::span(values)), dtype, dst);
}

void GgufWeights::read(std::string_view name, DType dtype, std::span<std::byte> dst) const {
  const Location& location = location_of(name);
  if (location.parts.front().is_transposed) {
    if (!is_convertible(DType::f32, dtype)) fail_dtype(location, dtype);
    return read_whole_transposed(location, dtype, dst);
  }
  read_rows_of(
      location, {.first = 0, .count = static_cast<int64_t>(location.num_rows())}, dtype, dst);
}

bool GgufWeights::reads_rows(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return false;
  const Location& location = found->second;
  if (location.parts.front().is_transposed || location.is_list) return false;
  return location.spec.shape.size() == 2 || location.rows_per_matrix != 1;
}

RowRange GgufWeights::rows_of_matrices(const Location& location, RowRange matrices) {
  const auto rows = static_cast<int64_t>(location.rows_per_matrix);
  return {.first = matrices.first * rows, .count = matrices.count * rows};
}

void GgufWeights::read_rows(std::string_view name,
                            RowRange rows,
                            DType dtype,
                            std::span<std::byte> dst) const {
  const Location& location = location_of(name);
  read_rows_of(location, rows_of_matrices(location, rows), dtype, dst);
}

void GgufWeights::fail_dtype(const Location& location, DType dtype) {
  throw FileError("E_DTYPE",
                  location.parts.front().file->path(),
                  visible(location.tensor().name),
                  fmt::format("is stored as {} and cannot be read as {}",
                              block_format_name(location.tensor().format),
                              dtype_name(dtype)));
}

void GgufWeights::read_rows_of(const Location& location,
                               RowRange rows,
                               DType dtype,
                               std::span<std::byte> dst) const {
  if (!is_convertible(location.spec.dtype, dtype)) fail_dtype(location, dtype);
  const uint64_t dst_bytes = location.row_elements * dtype_bytes(dtype);
  REPRISE_ASSERT(dst.size() == static_cast<uint64_t>(rows.count) * dst_bytes,
                 "{}: rows of {} bytes do not fit a destination of {} bytes",
                 location.tensor().name,
                 dst_bytes,
                 dst.size());
  RowDecoder decoder(model_->path(), location.change, location.row_elements, dtype);
  for_each_row(
      location, rows, [&](uint64_t row, std::span<const std::byte> stored, const Part& part) {
        decoder.decode(*part.tensor, stored, dst.subspan(row * dst_bytes, dst_bytes));
      });
}

std::optional<PanelFormat> GgufWeights::panel_format(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return std::nullopt;
  const Location& location = found->second;
  const bool is_matrix = location.spec.shape.size() == 2 || location.rows_per_matrix != 1;
  const bool is_as_stored = std::ranges::all_of(location.parts, [&](const Part& part) {
    return !part.is_transposed && part.tensor->format == location.tensor().format;
  });
  if (!is_matrix || !is_as_stored || location.change != ValueChange::none) return std::nullopt;
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
  const int64_t depth = location.spec.shape.back();
  const RowRange all = rows_of_matrices(location, rows);
  REPRISE_ASSERT(dst.size() == static_cast<uint64_t>(panel_bytes(*format, all.count, depth)),
                 "{}: panels of {} bytes do not fit a destination of {} bytes",
                 name,
                 panel_bytes(*format, all.count, depth),
                 dst.size());
  clear_unused_columns(*format, dst, depth, all.count);
  for_each_row(
      location, all, [&](uint64_t row, std::span<const std::byte> stored, const Part& part) {
        pack_row(part.tensor->format, stored, static_cast<int64_t>(row), dst);
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
