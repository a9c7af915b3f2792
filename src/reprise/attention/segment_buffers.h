#pragma once

#include <cstdint>

#include "reprise/attention/attention_backend.h"
#include "reprise/device/device.h"
#include "reprise/tensor/attention_path.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {

/// The number of segments for whose sums the memory has room: all segments of the longest context,
/// or more if these take no more than 8 MiB. 0: no context has more than one segment, or the device
/// is not a CPU.
[[nodiscard]] int64_t most_segments(const BackendResources& resources) noexcept;

/// The memory through which several workers compute the segments of one context. All layers and all
/// graphs of a model use it, one after the other.
///
/// Belongs to one attention backend. Its addresses never change.
class SegmentBuffers {
 public:
  explicit SegmentBuffers(const BackendResources& resources);

  /// Lets a path without a plan use this memory. The first call submits work to `stream` that
  /// prepares the memory.
  void add_to(AttentionPath& path, device::Stream& stream);

 private:
  device::Buffer sums_buffer_;
  device::Buffer counters_buffer_;
  Tensor sums_;  // undefined: there are no buffers
  Tensor counters_;
  bool is_zeroed_ = false;
};

}  // namespace reprise::attention
