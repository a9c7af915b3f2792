#include "reprise/models/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <numeric>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/tensor/column_panels.h"
#include "reprise/tensor/packed_weight.h"

namespace reprise::models {
namespace {

// Tensors can be stacked when all dimensions but the first agree. Biases may have any length.
bool is_stackable(const Shape& above, const Shape& below) {
  if (above.rank() != below.rank()) return false;
  for (int dim = 1; dim < above.rank(); ++dim) {
    if (above[dim] != below[dim]) return false;
  }
  return true;
}

// The name of a stack: "layers.0.q_proj.weight" and similar names become
// "layers.0.q_proj+k_proj+v_proj.weight".
std::string stacked_name(std::span<const std::string_view> names) {
  std::string modules;
  size_t leaf = std::string_view::npos;
  for (std::string_view name : names) {
    leaf = name.rfind('.');
    const std::string_view module = name.substr(0, leaf);
    modules += modules.empty() ? std::string(module)
                               : fmt::format("+{}", module.substr(module.rfind('.') + 1));
  }
  return leaf == std::string_view::npos ? modules
                                        : modules + std::string(names.back().substr(leaf));
}

int64_t depth_of(const weights::WeightSource& source, std::string_view name) {
  return source.find(name)->shape[1];
}

// The parts of a packed weight: matrices one below the other. Neighbours of one format are one part
// where no panel would hold columns of both.
std::vector<PanelPart> panel_parts(const weights::WeightSource& source,
                                   std::span<const std::string_view> names) {
  std::vector<PanelPart> parts;
  for (std::string_view name : names) {
    const std::optional<PanelFormat> format = source.panel_format(name);
    if (!format) {
      throw FileError("E_DTYPE", source.description(), name, "the tensor was packed before");
    }
    const int64_t rows = source.find(name)->shape[0];
    if (!parts.empty() && parts.back().format == *format &&
        parts.back().columns % kPanelColumns == 0) {
      parts.back().columns += rows;
    } else {
      parts.push_back({.format = *format, .columns = rows});
    }
  }
  return parts;
}

const weights::TensorSpec& find_stored(const weights::WeightSource& source, std::string_view name) {
  const weights::TensorSpec* spec = source.find(name);
  if (spec == nullptr) {
    throw FileError("E_MISSING", source.description(), name, "the model needs this tensor");
  }
  return *spec;
}

// The shape of one tensor in the stack.
Shape loaded_shape(const weights::TensorSpec& spec, bool is_transposed) {
  Shape shape{std::span<const int64_t>(spec.shape)};
  if (is_transposed && shape.rank() == 2) std::swap(shape[0], shape[1]);
  return shape;
}

TensorType arranged_type(TensorType type, const Arrangement& arrangement) {
  if (!arrangement.rows.empty()) {
    const auto last = std::max_element(arrangement.rows.begin(), arrangement.rows.end());
    REPRISE_ASSERT(*last < type.shape[0], "row {} of {}", *last, type.to_string());
    type.shape[0] = static_cast<int64_t>(arrangement.rows.size());
  }
  if (arrangement.num_experts > 0) {
    const int64_t experts = arrangement.num_experts;
    type.shape = {experts, type.shape[0] / experts, type.shape[1]};
    if (arrangement.transposes_each) std::swap(type.shape[1], type.shape[2]);
  }
  return type;
}

// Writes the transpose of `stored` to `dst`, whose type is `type`.
void transpose(std::span<const std::byte> stored,
               const TensorType& type,
               std::span<std::byte> dst) {
  const size_t bytes = dtype_bytes(type.dtype);
  const auto rows = static_cast<size_t>(type.shape[0]);
  const auto columns = static_cast<size_t>(type.shape[1]);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      std::memcpy(dst.data() + (row * columns + column) * bytes,
                  stored.data() + (column * rows + row) * bytes,
                  bytes);
    }
  }
}

}  // namespace

Tensor Parameters::load_stacked(std::span<const std::string_view> names,
                                const Arrangement& arrangement) {
  return load(names, Storage::elements, arrangement);
}

Tensor Parameters::load_projection(std::span<const std::string_view> names,
                                   const Arrangement& arrangement) {
  return load(names, storage_of(names, arrangement), arrangement);
}

Parameters::Storage Parameters::storage_of(std::span<const std::string_view> names,
                                           const Arrangement& arrangement) const {
  // Rows in blocks share panels, so they stay where they are.
  if (arrangement.is_trivial() && is_packed(names)) return Storage::block_panels;
  if (packing_ == Packing::dequantise || arrangement.dtype.value_or(dtype_) != DType::bf16 ||
      arrangement.num_experts > 0) {
    return Storage::elements;
  }
  // Epilogues pair the halves of a stack, or take each of its tensors apart.
  const auto fits = [&](std::string_view name) {
    const weights::TensorSpec* spec = source_->find(name);
    if (spec == nullptr || spec->shape.size() != 2) return false;
    const Shape shape = loaded_shape(*spec, arrangement.is_transposed);
    return fits_column_panels(shape[0], shape[1]);
  };
  const Shape all = loaded_type(*source_, names, Storage::elements, arrangement).shape;
  const bool has_whole_halves = all.rank() == 2 && all[0] % (2 * kPanelColumns) == 0;
  return has_whole_halves && std::all_of(names.begin(), names.end(), fits) ? Storage::column_panels
                                                                           : Storage::elements;
}

bool Parameters::is_packed(std::span<const std::string_view> names) const {
  if (packing_ == Packing::dequantise) return false;
  const bool are_packable = std::all_of(names.begin(), names.end(), [&](std::string_view name) {
    return source_->panel_format(name).has_value();
  });
  return are_packable && panel_parts(*source_, names).size() <= PanelHeader::kMaxParts;
}

Tensor Parameters::load(std::span<const std::string_view> names,
                        Storage storage,
                        const Arrangement& arrangement) {
  const TensorType type = loaded_type(*source_, names, storage, arrangement);
  origins_.push_back({.buffer = buffers_.size(),
                      .type = type,
                      .storage = storage,
                      .arrangement = arrangement,
                      .names = {names.begin(), names.end()}});
  const char* suffix = storage == Storage::block_panels ? " (packed)" : "";
  const std::string name = arrangement.name.empty() ? stacked_name(names) : arrangement.name;
  return upload(name + suffix, type, read_arranged(*source_, names, storage, arrangement));
}

TensorType Parameters::stacked_type(const weights::WeightSource& source,
                                    std::span<const std::string_view> names,
                                    Storage storage,
                                    const Arrangement& arrangement) const {
  TensorType type{.dtype = arrangement.dtype.value_or(dtype_)};
  for (std::string_view name : names) {
    const Shape shape = loaded_shape(find_stored(source, name), arrangement.is_transposed);
    if (type.shape.rank() == 0) {
      type.shape = shape;
    } else {
      REPRISE_ASSERT(is_stackable(type.shape, shape),
                     "{} cannot be stacked: {} under {}",
                     name,
                     shape.to_string(),
                     type.shape.to_string());
      type.shape[0] += shape[0];
    }
  }
  if (storage == Storage::block_panels) {
    return packed_weight_type(panel_parts(source, names), depth_of(source, names[0]));
  }
  return type;
}

TensorType Parameters::loaded_type(const weights::WeightSource& source,
                                   std::span<const std::string_view> names,
                                   Storage storage,
                                   const Arrangement& arrangement) const {
  TensorType type = arranged_type(stacked_type(source, names, storage, arrangement), arrangement);
  if (storage == Storage::column_panels) type.dtype = DType::bf16_panels;
  return type;
}

std::span<const std::byte> Parameters::read_arranged(const weights::WeightSource& source,
                                                     std::span<const std::string_view> names,
                                                     Storage storage,
                                                     const Arrangement& arrangement) {
  const TensorType type = stacked_type(source, names, storage, arrangement);
  staging_.resize(type.bytes());
  if (storage == Storage::block_panels) {
    read_panels(source, names);
    return std::span(staging_).first(type.bytes());
  }
  size_t offset = 0;
  for (std::string_view name : names) {
    TensorType part{type.dtype, loaded_shape(*source.find(name), arrangement.is_transposed)};
    const std::span<std::byte> dst = std::span(staging_).subspan(offset, part.bytes());
    if (arrangement.is_transposed && part.shape.rank() == 2) {
      arranged_.resize(dst.size());
      source.read(name, type.dtype, arranged_);
      transpose(arranged_, part, dst);
    } else {
      source.read(name, type.dtype, dst);
    }
    offset += dst.size();
  }
  const std::span<std::byte> result = arrange(type, arrangement);
  if (storage == Storage::column_panels) {
    const Shape shape = loaded_type(source, names, storage, arrangement).shape;
    pack_column_panels(result, shape[0], shape[1]);
  }
  return result;
}

std::span<std::byte> Parameters::arrange(const TensorType& stacked,
                                         const Arrangement& arrangement) {
  const size_t bytes = stacked.bytes();
  size_t arranged_bytes = bytes;
  if (!arrangement.rows.empty()) {
    const size_t row_bytes = bytes / static_cast<size_t>(stacked.shape[0]);
    arranged_bytes = arrangement.rows.size() * row_bytes;
    arranged_.resize(arranged_bytes);
    for (size_t i = 0; i < arrangement.rows.size(); ++i) {
      const auto from = static_cast<size_t>(arrangement.rows[i]) * row_bytes;
      std::memcpy(arranged_.data() + i * row_bytes, staging_.data() + from, row_bytes);
    }
    std::swap(arranged_, staging_);
  }
  if (arrangement.transposes_each) {
    const TensorType result = arranged_type(stacked, arrangement);
    const TensorType matrix{result.dtype, {result.shape[1], result.shape[2]}};
    arranged_.resize(arranged_bytes);
    for (size_t offset = 0; offset < arranged_bytes; offset += matrix.bytes()) {
      transpose(std::span(staging_).subspan(offset),
                matrix,
                std::span(arranged_).subspan(offset, matrix.bytes()));
    }
    std::swap(arranged_, staging_);
  }
  return std::span(staging_).first(arranged_bytes);
}

void Parameters::read_panels(const weights::WeightSource& source,
                             std::span<const std::string_view> names) {
  const int64_t depth = depth_of(source, names[0]);
  const PanelHeader header = make_panel_header(panel_parts(source, names), depth);
  std::fill(staging_.begin(), staging_.begin() + kPanelHeaderBytes, std::byte{0});
  std::memcpy(staging_.data(), &header, sizeof header);
  size_t offset = kPanelHeaderBytes;
  for (std::string_view name : names) {
    const auto bytes = static_cast<size_t>(
        panel_bytes(*source.panel_format(name), source.find(name)->shape[0], depth));
    source.read_panels(name, std::span(staging_).subspan(offset, bytes));
    offset += bytes;
  }
  std::fill(staging_.begin() + static_cast<std::ptrdiff_t>(offset), staging_.end(), std::byte{0});
}

std::optional<float> Parameters::find_number(std::string_view name) const {
  const weights::TensorSpec* spec = source_->find(name);
  if (spec == nullptr) return std::nullopt;
  const int64_t count =
      std::accumulate(spec->shape.begin(), spec->shape.end(), int64_t{1}, std::multiplies());
  if (count != 1) {
    throw FileError("E_SHAPE",
                    source_->description(),
                    name,
                    fmt::format("is {}, expected one number", weights::shape_text(spec->shape)));
  }
  float number = 0;
  source_->read(name, DType::f32, std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

std::string Parameters::packed_weights() const {
  uint64_t digest = 0xcbf29ce484222325ULL;  // FNV-1a
  size_t count = 0;
  for (const Origin& origin : origins_) {
    if (origin.storage == Storage::elements) continue;
    ++count;
    for (const char c : fmt::format("{}:{};", names_[origin.buffer], origin.type.shape[1])) {
      digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    }
  }
  return count == 0 ? std::string() : fmt::format("{}:{:016x}", count, digest);
}

void Parameters::copy_to_host() {
  std::vector<std::unique_ptr<std::byte[]>> copy;
  try {
    for (const Origin& origin : origins_) {
      const device::BufferView from = buffers_[origin.buffer].view();
      copy.push_back(std::make_unique_for_overwrite<std::byte[]>(from.bytes));
      stream_->copy_to_host(copy.back().get(), from.data, from.bytes);
    }
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(
        fmt::format("the host has no room for a copy of {} bytes of weights; without one (level 2) "
                    "they are read "
                    "again on waking",
                    total_bytes_));
  }
  host_copy_ = std::move(copy);
}

void Parameters::copy_from_host() {
  REPRISE_ASSERT(has_host_copy(), "weights without a copy on the host");
  for (size_t i = 0; i < origins_.size(); ++i) {
    const device::BufferView to = buffers_[origins_[i].buffer].view();
    stream_->copy_from_host(to.data, host_copy_[i].get(), to.bytes);
  }
  stream_->synchronize();
}

void Parameters::discard(device::DiscardableMemory& memory) noexcept {
  for (const Origin& origin : origins_) memory.discard(buffers_[origin.buffer].view());
}

void Parameters::restore(device::DiscardableMemory& memory) {
  for (const Origin& origin : origins_) memory.restore(buffers_[origin.buffer].view());
}

void Parameters::reload(const weights::WeightSource& source) {
  for (const Origin& origin : origins_) {
    const std::vector<std::string_view> names(origin.names.begin(), origin.names.end());
    if (loaded_type(source, names, origin.storage, origin.arrangement) != origin.type) {
      throw FileError("E_SHAPE",
                      source.description(),
                      names[0],
                      "the shape is not that of the model that was loaded");
    }
    const std::span<const std::byte> bytes =
        read_arranged(source, names, origin.storage, origin.arrangement);
    stream_->copy_from_host(buffers_[origin.buffer].data(), bytes.data(), bytes.size());
  }
  staging_ = {};
  arranged_ = {};
}

void Parameters::finish_loading() noexcept {
  source_ = nullptr;
  staging_ = {};
  arranged_ = {};
}

Tensor Parameters::add_table(std::string_view name,
                             std::span<const float> values,
                             const Shape& shape) {
  return upload(std::string(name), {DType::f32, shape}, std::as_bytes(values));
}

Tensor Parameters::add_table(std::string_view name, std::span<const int32_t> values) {
  const TensorType type{DType::i32, {static_cast<int64_t>(values.size())}};
  return upload(std::string(name), type, std::as_bytes(values));
}

Tensor Parameters::add_buffer(std::string_view name, const TensorType& type) {
  names_.emplace_back(name);
  buffers_.push_back(device_->allocate(type.bytes()));
  stream_->fill(buffers_.back().data(), std::byte{0}, type.bytes());
  total_bytes_ += type.bytes();
  return Tensor::borrow(type, buffers_.back().data(), *executor_);
}

Shape Parameters::stored_shape(std::string_view name, bool is_transposed) const {
  return loaded_shape(find_stored(*source_, name), is_transposed);
}

Tensor Parameters::upload(std::string name,
                          const TensorType& type,
                          std::span<const std::byte> bytes) {
  names_.push_back(std::move(name));
  buffers_.push_back(device_->allocate(bytes.size()));
  stream_->copy_from_host(buffers_.back().data(), bytes.data(), bytes.size());
  total_bytes_ += bytes.size();
  return Tensor::borrow(type, buffers_.back().data(), *executor_);
}

std::vector<device::BufferView> Parameters::memory() const {
  std::vector<device::BufferView> views;
  for (const device::Buffer& buffer : buffers_) views.push_back(buffer.view());
  return views;
}

std::string_view Parameters::name_of(const Tensor& tensor) const noexcept {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].data() == tensor.data()) return names_[i];
  }
  return {};
}

device::BufferView Parameters::find(std::string_view name) const noexcept {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (names_[i] == name) return buffers_[i].view();
  }
  return {};
}

}  // namespace reprise::models
