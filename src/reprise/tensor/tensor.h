#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "reprise/base/assert.h"
#include "reprise/device/kernel.h"
#include "reprise/device/memory_pool.h"
#include "reprise/tensor/dtype.h"
#include "reprise/tensor/shape.h"
#include "reprise/tensor/weight_layout.h"

namespace reprise {

class OpExecutor;

/// Element type, shape and, of weights, layout of a tensor.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  WeightLayout layout = {};

  [[nodiscard]] size_t bytes() const noexcept {
    const auto elements = static_cast<size_t>(shape.num_elements());
    if (!layout.has_codes()) return elements * dtype_bytes(dtype);
    return elements / static_cast<size_t>(shape[-1]) * static_cast<size_t>(layout.row_bytes);
  }
  /// "bfloat16[3, 4096]"; with its layout behind the element type: "bfloat16_panels[64, 4096]"
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// A strided view of device memory, copied by value. It either shares ownership of a pool block
/// (the result of an op) or borrows memory that its owner keeps alive (weights, persistent buffers,
/// the recorded outputs of a graph). A tensor also holds the executor that runs ops on it:
/// `ops::rms_norm(x, w, eps)` asks x for its executor, which launches kernels or records a program,
/// so no global executor is needed. A default-constructed tensor is undefined; it stands for an
/// optional operand that is left out.
class Tensor {
 public:
  Tensor() = default;

  /// A dense tensor over memory that its owner keeps alive.
  static Tensor borrow(TensorType type, void* data, OpExecutor& executor) {
    return Tensor(type, type.shape.dense_strides(), data, &executor, {});
  }
  /// A dense tensor that shares ownership of `block`.
  static Tensor own(TensorType type, device::PoolReference block, OpExecutor& executor) {
    void* data = block.get()->data;
    return Tensor(type, type.shape.dense_strides(), data, &executor, std::move(block));
  }

  [[nodiscard]] bool defined() const noexcept { return executor_ != nullptr; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] const WeightLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] TensorType type() const { return {dtype_, shape_, layout_}; }
  [[nodiscard]] int rank() const noexcept { return shape_.rank(); }
  /// Size of a dimension; negative counts from the end.
  [[nodiscard]] int64_t size(int dim) const { return shape_[dim]; }
  /// Distance in elements between two neighbours along a dimension.
  [[nodiscard]] int64_t stride(int dim) const { return strides_[dim]; }
  [[nodiscard]] const Shape& strides() const noexcept { return strides_; }
  [[nodiscard]] int64_t num_elements() const noexcept { return shape_.num_elements(); }
  [[nodiscard]] bool is_dense() const { return strides_ == shape_.dense_strides(); }

  /// Address on the executor's device.
  [[nodiscard]] void* data() const noexcept { return data_; }
  template <typename T>
  [[nodiscard]] T* data_as() const noexcept {
    return static_cast<T*>(data_);
  }
  /// The range of memory from the first to the last element.
  [[nodiscard]] device::BufferView extent() const;
  [[nodiscard]] OpExecutor& executor() const {
    REPRISE_ASSERT(executor_ != nullptr, "an undefined tensor has no executor");
    return *executor_;
  }

  /// A view of the same memory with another shape and strides. It shares ownership. \pre the layout
  /// is rows
  [[nodiscard]] Tensor with_layout(Shape shape, Shape strides, int64_t element_offset) const;
  /// The same view, but it does not keep the memory alive. The address stays valid, but the pool
  /// may put other data there. A graph keeps its outputs in this form.
  [[nodiscard]] Tensor without_ownership() const {
    return Tensor(type(), strides_, data_, executor_, {});
  }

 private:
  Tensor(const TensorType& type,
         Shape strides,
         void* data,
         OpExecutor* executor,
         device::PoolReference block)
      : dtype_(type.dtype),
        layout_(type.layout),
        shape_(type.shape),
        strides_(strides),
        data_(data),
        executor_(executor),
        block_(std::move(block)) {}

  DType dtype_ = DType::f32;
  WeightLayout layout_;
  Shape shape_;
  Shape strides_;
  void* data_ = nullptr;
  OpExecutor* executor_ = nullptr;  // owned by the model runner, outlives all tensors
  device::PoolReference block_;
};

}  // namespace reprise
