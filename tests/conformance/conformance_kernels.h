#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "device_conformance.h"

namespace reprise::device::conformance {

/// Adds `amount` to one element per block: counts how often each block ran.
struct AddArgs {
  uint32_t* values;  // [num_blocks]
  uint32_t amount;
};
extern const Kernel kAdd;

/// Hashes elements of two sources into the destination. Blocks split the destination evenly and
/// read the sources at distant places, so a block depends on blocks of earlier launches that ran on
/// other workers. Some blocks dawdle, to shake the timing.
struct MixArgs {
  uint32_t* destination;   // [num_elements]; read too
  const uint32_t* first;   // [first_elements]
  const uint32_t* second;  // [second_elements]
  uint32_t num_elements;
  uint32_t first_elements;
  uint32_t second_elements;
  uint32_t num_blocks;
  uint32_t salt;
};
extern const Kernel kMix;

/// The same computation over all blocks, on the host.
void mix_reference(const MixArgs& args) noexcept;

/// Owns device memory for `count` numbers.
class DeviceArray {
 public:
  DeviceArray(Subject& subject, size_t count)
      : stream_(subject.stream.get()),
        buffer_(subject.device->allocate(count * sizeof(uint32_t))),
        count_(count) {}

  [[nodiscard]] uint32_t* data() const noexcept { return static_cast<uint32_t*>(buffer_.data()); }
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
  Stream* stream_;  // the subject's
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
