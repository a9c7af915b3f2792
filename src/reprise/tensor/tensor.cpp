#include "reprise/tensor/tensor.h"

#include <fmt/format.h>

namespace reprise {

std::string TensorType::to_string() const {
  return fmt::format("{}{}{}{}",
                     dtype_name(dtype),
                     layout.is_rows() ? "" : "_",
                     layout.to_string(),
                     shape.to_string());
}

device::BufferView Tensor::extent() const {
  if (num_elements() == 0) return {data_, 0};
  if (!layout_.is_rows()) return {data_, type().bytes()};
  int64_t last = 0;
  for (int dim = 0; dim < rank(); ++dim) last += (shape_[dim] - 1) * strides_[dim];
  return {data_, static_cast<size_t>(last + 1) * dtype_bytes(dtype_)};
}

Tensor Tensor::with_layout(Shape shape, Shape strides, int64_t element_offset) const {
  REPRISE_ASSERT(layout_.is_rows(), "a view of {}", type().to_string());
  auto* address = static_cast<std::byte*>(data_);
  // A view of a tensor without memory (an undefined address) has no memory either.
  if (address != nullptr) address += element_offset * static_cast<int64_t>(dtype_bytes(dtype_));
  return Tensor({dtype_, shape}, strides, address, executor_, block_);
}

}  // namespace reprise
