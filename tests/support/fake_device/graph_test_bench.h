#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/device.h"
#include "reprise/tensor/op.h"
#include "reprise/tensor/tensor.h"
#include "tests/support/fake_device/fake_device.h"

/// A device with one buffer and one kernel, for tests of the graph layer.
namespace reprise::cudagraph::testing {

struct ScaleAddArgs {
  int32_t* data;
  int32_t count;
  int32_t scale;
  int32_t offset;
};

inline void scale_add(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ScaleAddArgs*>(args);
  for (uint32_t i = blocks.begin; i < blocks.end && i < static_cast<uint32_t>(a.count); ++i) {
    a.data[i] = a.data[i] * a.scale + a.offset;
  }
}

inline constexpr device::Kernel kScaleAdd{.name = "scale_add", .cpu = scale_add};

/// These tests run no ops, but a tensor needs an executor to be defined.
class NoOps final : public OpExecutor {
 public:
  void execute(const OpCall&, std::span<const Tensor>, std::span<Tensor>) override {}
};

class GraphBench {
 public:
  static constexpr int32_t kCount = 8;

  explicit GraphBench(device::Device& device)
      : device_(device),
        stream_(device.create_stream()),
        buffer_(device.allocate(kCount * sizeof(int32_t))) {}

  [[nodiscard]] device::Device& device() { return device_; }
  [[nodiscard]] device::Stream& stream() { return *stream_; }
  [[nodiscard]] int32_t* data() { return static_cast<int32_t*>(buffer_.data()); }
  [[nodiscard]] Tensor tensor() {
    return Tensor::borrow({DType::i32, {kCount}}, buffer_.data(), no_ops_);
  }
  [[nodiscard]] Tensor tensor_at(void* address) {
    return Tensor::borrow({DType::i32, {kCount}}, address, no_ops_);
  }

  /// data = data * scale + offset, in place.
  void scale_add(int32_t scale, int32_t offset) { scale_add_at(data(), scale, offset); }
  void scale_add_at(int32_t* address, int32_t scale, int32_t offset) {
    const ScaleAddArgs args{address, kCount, scale, offset};
    const std::array uses{device::BufferUse{
        address, kCount * sizeof(int32_t), device::BufferUse::Access::read_write}};
    stream_->launch({.kernel = &kScaleAdd,
                     .num_blocks = kCount,
                     .args = std::as_bytes(std::span(&args, 1)),
                     .uses = uses});
  }
  void set_all(int32_t value) { std::fill(data(), data() + kCount, value); }

  [[nodiscard]] ForwardContext context(CudagraphRuntimeMode mode, int32_t num_tokens) {
    return {
        .runtime_mode = mode, .descriptor = {.num_tokens = num_tokens}, .stream = stream_.get()};
  }

 private:
  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;
  device::Buffer buffer_;
  NoOps no_ops_;
};

}  // namespace reprise::cudagraph::testing
