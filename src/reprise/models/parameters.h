#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/device/discardable_memory.h"
#include "reprise/tensor/tensor.h"
#include "reprise/weights/weight_source.h"

namespace reprise::models {

/// Puts a model's weights on the device, converted to the model's dtype, and owns them from then
/// on. Also makes the tables a model derives (rotary embedding).
class Parameters {
 public:
  /// `source` is only borrowed while loading; the others must outlive this.
  Parameters(const weights::WeightSource& source,
             DType dtype,
             device::Device& device,
             device::Stream& stream,
             OpExecutor& executor)
      : source_(&source), dtype_(dtype), device_(&device), stream_(&stream), executor_(&executor) {}

  /// One tensor by its Hugging Face name.
  [[nodiscard]] Tensor load(std::string_view name) { return load_stacked({&name, 1}); }

  /// Several tensors with equal inner dimensions as one, their rows after each other: projections
  /// that read the same input become one product.
  [[nodiscard]] Tensor load_stacked(std::span<const std::string_view> names);

  /// A float32 table computed on the host; the name is for people.
  [[nodiscard]] Tensor add_table(std::string_view name,
                                 std::span<const float> values,
                                 const Shape& shape);

  /// No more loading: lets go of the source and of the staging memory.
  void finish_loading() noexcept;

  /// Keeps a copy of all that was loaded in host memory. \throws OutOfMemory when the host has no
  /// room, DeviceError; then there is none
  void copy_to_host();
  [[nodiscard]] bool has_host_copy() const noexcept { return !host_copy_.empty(); }
  /// Puts the copy's contents where they were. \throws DeviceError \pre has_host_copy()
  void copy_from_host();
  void drop_host_copy() noexcept { host_copy_.clear(); }

  /// Gives the memory of all that was loaded back to the system; tables stay. Nothing in flight may
  /// read it, and nothing may until it was restored and has contents again.
  void discard(device::DiscardableMemory& memory) noexcept;
  /// Puts memory where it was given back. \throws as DiscardableMemory::restore; may be called
  /// again
  void restore(device::DiscardableMemory& memory);
  /// Loads again what was loaded, to the same addresses. `source` has the names and shapes of the
  /// first one. \throws FileError; what was read until then stays
  void reload(const weights::WeightSource& source);

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] size_t total_bytes() const noexcept { return total_bytes_; }
  /// Every address a graph may have been recorded with.
  [[nodiscard]] std::vector<device::BufferView> memory() const;
  /// What the tensor was loaded from: "model.layers.0.mlp.down_proj.weight", or for stacked ones
  /// "model.layers.0.mlp.gate_proj+up_proj.weight". Empty for tensors that are not of here.
  [[nodiscard]] std::string_view name_of(const Tensor& tensor) const noexcept;
  /// The memory of the tensor of that name; empty if there is none.
  [[nodiscard]] device::BufferView find(std::string_view name) const noexcept;

 private:
  /// Where a buffer came from, to load it again.
  struct Origin {
    size_t buffer = 0;  // index
    TensorType type;
    std::vector<std::string> names;  // in the source
  };

  [[nodiscard]] TensorType stacked_type(const weights::WeightSource& source,
                                        std::span<const std::string_view> names) const;
  /// The tensors' bytes one after the other, in memory that the next call uses again.
  [[nodiscard]] std::span<const std::byte> read_stacked(const weights::WeightSource& source,
                                                        std::span<const std::string_view> names,
                                                        const TensorType& type);
  Tensor upload(std::string name, const TensorType& type, std::span<const std::byte> bytes);

  const weights::WeightSource* source_;  // null after finish_loading()
  DType dtype_;
  device::Device* device_;
  device::Stream* stream_;
  OpExecutor* executor_;
  std::vector<device::Buffer> buffers_;
  std::vector<std::string> names_;                       // by buffer
  std::vector<Origin> origins_;                          // of all but tables
  std::vector<std::unique_ptr<std::byte[]>> host_copy_;  // by origin; empty: there is none
  std::vector<std::byte> staging_;  // reused between tensors; the largest one decides its size
  size_t total_bytes_ = 0;
};

}  // namespace reprise::models
