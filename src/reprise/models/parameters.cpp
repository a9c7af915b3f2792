#include "reprise/models/parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/error.h"

namespace reprise::models {
namespace {

// Rows can follow each other when everything but their number agrees: biases have any length.
bool is_stackable(const Shape& above, const Shape& below) {
  if (above.rank() != below.rank()) return false;
  for (int dim = 1; dim < above.rank(); ++dim) {
    if (above[dim] != below[dim]) return false;
  }
  return true;
}

}  // namespace

Tensor Parameters::load_stacked(std::span<const std::string_view> names) {
  TensorType type{.dtype = dtype_};
  for (std::string_view name : names) {
    const weights::TensorSpec* spec = source_->find(name);
    if (spec == nullptr) {
      throw FileError("E_MISSING", source_->description(), name, "the model needs this tensor");
    }
    const Shape shape{std::span<const int64_t>(spec->shape)};
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
  staging_.resize(type.bytes());
  size_t offset = 0;
  for (std::string_view name : names) {
    const Shape shape{std::span<const int64_t>(source_->find(name)->shape)};
    const size_t bytes = TensorType{dtype_, shape}.bytes();
    source_->read(name, dtype_, std::span(staging_).subspan(offset, bytes));
    offset += bytes;
  }
  return upload(type, std::span(staging_).first(type.bytes()));
}

void Parameters::finish_loading() noexcept {
  source_ = nullptr;
  staging_ = {};
}

Tensor Parameters::add_table(std::span<const float> values, const Shape& shape) {
  return upload({DType::f32, shape}, std::as_bytes(values));
}

Tensor Parameters::upload(const TensorType& type, std::span<const std::byte> bytes) {
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

}  // namespace reprise::models
