#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/device/discardable_memory.h"
#include "reprise/models/weight_reader.h"
#include "reprise/tensor/tensor.h"
#include "reprise/tensor/weight_families.h"
#include "reprise/weights/mapped_weights.h"
#include "reprise/weights/weight_source.h"

namespace reprise::models {

/// Loads a model's weights onto the device, converted to the model's dtype, and owns them from then
/// on. Also makes the tables that a model derives (rotary embedding).
class Parameters {
 public:
  /// `families`: the layouts that the kernels of the device read (DeviceExecutor). Weights that the
  /// source has in one of them stay as they are, others become rows of numbers; matrices of
  /// bfloat16 become column panels where these are among them. `source` is borrowed until
  /// finish_loading(); the other references must outlive this object.
  Parameters(const weights::WeightSource& source,
             DType dtype,
             device::Device& device,
             device::Stream& stream,
             OpExecutor& executor,
             WeightFamilies families = {})
      : source_(&source),
        dtype_(dtype),
        families_(families),
        device_(&device),
        stream_(&stream),
        executor_(&executor),
        reader_(stream) {}

  /// From now on, weights that `mapped` has are not read from the source. Weights with other names,
  /// or made in other ways, are read as before. \pre the device is the host itself
  void use(std::shared_ptr<weights::MappedWeights> mapped) { mapped_ = std::move(mapped); }
  /// All loaded weights, for a file that use() can take. Their memory belongs to this object.
  [[nodiscard]] std::vector<weights::PackedWeight> packed_copy() const;
  /// The number of loaded weights that were read, and not mapped.
  [[nodiscard]] size_t num_read() const noexcept { return origins_.size() - num_mapped_; }

  /// One tensor by its Hugging Face name.
  [[nodiscard]] Tensor load(std::string_view name, const Arrangement& arrangement = {}) {
    return load_stacked({&name, 1}, arrangement);
  }

  /// Loads several tensors with equal inner dimensions as one, their rows one after the other, so
  /// that projections that read the same input become one matrix product.
  [[nodiscard]] Tensor load_stacked(std::span<const std::string_view> names,
                                    const Arrangement& arrangement = {});

  /// The same for weights of matrix products, which stay packed if the source has all of them in
  /// packed formats, and are reordered into column panels if they are bfloat16 of a shape that
  /// fits. models::project() takes any of these.
  [[nodiscard]] Tensor load_projection(std::span<const std::string_view> names,
                                       const Arrangement& arrangement = {});
  [[nodiscard]] Tensor load_projection(std::string_view name, const Arrangement& arrangement = {}) {
    return load_projection({&name, 1}, arrangement);
  }
  /// The matrices of all experts, from arrangement.num_experts groups of equally many tensors:
  /// [num_experts, rows, columns]. They stay packed if the source has all of them in blocks and no
  /// panel has rows of two tensors.
  [[nodiscard]] Tensor load_experts(std::span<const std::string_view> names,
                                    const Arrangement& arrangement);
  /// Why experts that the source has in blocks did not stay packed: the first such case. Empty: all
  /// stayed packed.
  [[nodiscard]] const std::string& unpacked_experts() const noexcept { return unpacked_experts_; }
  /// The same for a matrix of which only rows are looked up: it stays packed or row-major.
  [[nodiscard]] Tensor load_table(std::string_view name);
  /// Whether load_projection() would keep the packing of the source.
  [[nodiscard]] bool is_packed(std::span<const std::string_view> names) const {
    return packed_family(names).has_value();
  }

  /// A number that the source stores as a tensor with one element; nothing: the source has no
  /// tensor of that name. Read while loading. \throws FileError E_SHAPE, E_DTYPE
  [[nodiscard]] std::optional<float> find_number(std::string_view name) const;

  /// The largest of positive numbers that the source stores as tensors with one element, as f32[1].
  /// reload() reads them again. \throws FileError; E_VALUE for a missing or other number
  [[nodiscard]] Tensor load_scale(std::span<const std::string_view> names);

  /// Whether all numbers of a vector are 0, or the source has no such vector. Read while loading.
  [[nodiscard]] bool holds_only_zeros(std::string_view name) const;

  /// Adds a float32 table that was computed on the host; the name is for messages.
  [[nodiscard]] Tensor add_table(std::string_view name,
                                 std::span<const float> values,
                                 const Shape& shape);

  /// The same for integers.
  [[nodiscard]] Tensor add_table(std::string_view name, std::span<const int32_t> values);
  /// Adds memory of zeros that the engine writes between steps (adapters, and the adapter of each
  /// token).
  [[nodiscard]] Tensor add_buffer(std::string_view name, const TensorType& type);
  /// The shape [outputs, inputs] of a matrix of the source. \throws FileError if there is no such
  /// matrix \pre before finish_loading()
  [[nodiscard]] Shape stored_shape(std::string_view name, bool is_transposed) const;

  /// Whether the source has a tensor of this name. \pre before finish_loading()
  [[nodiscard]] bool has_stored(std::string_view name) const { return source_->has(name); }
  /// Makes a tensor of another model known under a name, so that programs and graphs may refer to
  /// it. The tensor's owner must outlive this object; discard() does not give the tensor's memory
  /// back.
  Tensor share(std::string_view name, const Tensor& tensor);

  /// Ends loading: releases the source and the staging memory.
  void finish_loading() noexcept;

  /// Keeps a copy of all loaded weights in host memory. \throws OutOfMemory when the host has no
  /// room, DeviceError; then there is no copy
  void copy_to_host();
  [[nodiscard]] bool has_host_copy() const noexcept { return !host_copy_.empty(); }
  /// Writes the copy back to the weights' addresses. \throws DeviceError \pre has_host_copy()
  void copy_from_host();
  void drop_host_copy() noexcept { host_copy_.clear(); }

  /// Gives the memory of all loaded weights back to the system; tables stay. No work in flight may
  /// read the weights, and no later work may until they are restored and written again.
  void discard(device::DiscardableMemory& memory) noexcept;
  /// Maps memory at the addresses that discard() gave back. May be called again after an error.
  /// \throws the exceptions of DiscardableMemory::restore
  void restore(device::DiscardableMemory& memory);
  /// Loads the same weights again, to the same addresses. `source` must have the names and shapes
  /// of the first source. \throws FileError; the weights that were read before the error stay
  void reload(const weights::WeightSource& source);

  /// Whether a matrix is packed in blocks (tensor/block_panels.h).
  [[nodiscard]] bool has_block_panels() const;
  /// Whether a matrix is packed in this codec of int8_panels or float_panels.
  [[nodiscard]] bool has_codec(PanelFormat codec) const;
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] size_t total_bytes() const noexcept { return total_bytes_; }
  /// Every address that a graph may have been recorded with.
  [[nodiscard]] std::vector<device::BufferView> memory() const;
  /// All loaded weights by name; the names are those of name_of().
  [[nodiscard]] std::vector<std::pair<std::string_view, device::BufferView>> named_memory() const;
  /// The name that the tensor was loaded under: "model.layers.0.mlp.down_proj.weight", or for
  /// stacked ones "model.layers.0.mlp.gate_proj+up_proj.weight"; packed ones end in " (packed)".
  /// Empty for tensors of other owners.
  [[nodiscard]] std::string_view name_of(const Tensor& tensor) const noexcept;
  /// The memory of the tensor of that name; empty if there is none.
  [[nodiscard]] device::BufferView find(std::string_view name) const noexcept;

 private:
  /// The source of a buffer, for loading it again.
  struct Origin {
    size_t buffer = 0;  // into buffers_
    WeightPlan plan;
    uint64_t digest = 0;  // of the plan
  };
  struct Scale {
    device::BufferView buffer;
    std::vector<std::string> names;
  };
  /// Where weights are read for a device whose memory the host cannot write. As large as the
  /// largest of them.
  struct Staging {
    std::unique_ptr<std::byte[]> data;
    size_t bytes = 0;
  };

  /// The family in which the source's packing is kept; nothing if the packing is not kept.
  [[nodiscard]] std::optional<WeightFamily> packed_family(
      std::span<const std::string_view> names) const;
  [[nodiscard]] WeightFamily family_for(std::span<const std::string_view> names,
                                        const Arrangement& arrangement) const;
  [[nodiscard]] Tensor load(std::span<const std::string_view> names,
                            WeightFamily family,
                            const Arrangement& arrangement);
  /// Why experts with blocks cannot stay packed; empty if they can.
  [[nodiscard]] std::string reason_to_unpack(std::span<const std::string_view> names) const;
  /// \throws FileError if a tensor is missing
  [[nodiscard]] WeightPlan plan_of(const weights::WeightSource& source,
                                   std::span<const std::string_view> names,
                                   WeightFamily family,
                                   const Arrangement& arrangement) const;
  /// The type of a tensor that stacks these tensors by rows.
  [[nodiscard]] TensorType stacked_type(const weights::WeightSource& source,
                                        std::span<const std::string_view> names,
                                        const Arrangement& arrangement) const;
  /// Reads the tensors of a buffer and writes them to it.
  void write(const weights::WeightSource& source, const Origin& origin);
  Tensor allocate(std::string name, const TensorType& type);
  /// The mapped weight as a tensor, or nothing if it must be read.
  [[nodiscard]] std::optional<Tensor> find_mapped(const std::string& name, const Origin& origin);
  Tensor upload(std::string name, const TensorType& type, std::span<const std::byte> bytes);

  const weights::WeightSource* source_;  // null after finish_loading()
  DType dtype_;
  WeightFamilies families_;
  device::Device* device_;
  device::Stream* stream_;
  OpExecutor* executor_;
  WeightReader reader_;
  std::shared_ptr<weights::MappedWeights> mapped_;  // nullptr: every weight is read
  size_t num_mapped_ = 0;
  std::vector<device::BufferView> buffers_;  // mapped or owned
  std::vector<device::Buffer> owned_;
  std::vector<std::string> names_;                                  // by buffer
  std::vector<std::pair<std::string, device::BufferView>> shared_;  // of other models
  std::vector<Origin> origins_;                          // one per weight; tables have none
  std::vector<Scale> scales_;                            // their memory is kept, as of tables
  std::vector<std::unique_ptr<std::byte[]>> host_copy_;  // one per origin; empty without a copy
  Staging staging_;
  size_t total_bytes_ = 0;
  std::string unpacked_experts_;
};

}  // namespace reprise::models
