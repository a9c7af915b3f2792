#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "conformance_arguments.h"
#include "device_conformance.h"

namespace reprise::device::conformance {

extern const Kernel kAdd;
extern const Kernel kMix;

/// Does the kernel's computation for all blocks on the host.
void mix_reference(const MixArgs& args) noexcept;

/// Owns device memory for `count` numbers.
class DeviceArray {
 public:
  DeviceArray(Subject& subject, size_t count)
      : stream_(subject.stream.get()),
        buffer_(subject.device->allocate(count * sizeof(uint32_t))),
        count_(count) {}

  [[nodiscard]] uint32_t* data() const noexcept { return static_cast<uint32_t*>(buffer_.data()); }
  [[nodiscard]] BufferView view() const noexcept { return buffer_.view(); }
  [[nodiscard]] size_t count() const noexcept { return count_; }
  [[nodiscard]] size_t bytes() const noexcept { return count_ * sizeof(uint32_t); }

  void upload(const std::vector<uint32_t>& values) {
    stream_->copy_from_host(data(), values.data(), values.size() * sizeof(uint32_t));
  }
  [[nodiscard]] std::vector<uint32_t> download() const {
    std::vector<uint32_t> values(count_);
    stream_->copy_to_host(values.data(), data(), bytes());
    return values;
  }

 private:
  Stream* stream_;  // owned by the subject
  Buffer buffer_;
  size_t count_;
};

/// Launches kAdd over the first `num_blocks` elements of `values`.
void launch_add(Stream& stream, uint32_t* values, uint32_t num_blocks, uint32_t amount);
inline void launch_add(Stream& stream, const DeviceArray& values, uint32_t amount) {
  launch_add(stream, values.data(), static_cast<uint32_t>(values.count()), amount);
}

void launch_mix(Stream& stream, const MixArgs& args);

}  // namespace reprise::device::conformance
