#pragma once

#include <functional>
#include <vector>

#include "reprise/api/loading/sleep.h"
#include "reprise/device/device.h"
#include "reprise/device/discardable_memory.h"
#include "reprise/models/parameters.h"

namespace reprise::api {

/// The memory that an engine gives back while it sleeps: weights and KV cache. When they wake, they
/// get other memory at the same addresses, so captured graphs stay valid.
///
/// On a CPU, level 1 leaves the weights in place. Not thread-safe. No work may be in flight during
/// a call, and no step may run while a part sleeps. Borrows the device and the weights.
class EngineMemory {
 public:
  /// Reads the weights again from their source.
  using ReadWeights = std::function<void()>;

  /// `caches`: the memory of keys and values, and of recurrent states; views may be empty.
  EngineMemory(device::Device& device,
               models::Parameters& parameters,
               std::vector<device::BufferView> caches);

  /// Sleeps at this level, or stays at a deeper one. Level 1 first copies the weights to the host.
  /// \throws InvalidArgument when the device cannot give memory back, OutOfMemory when the host has
  /// no room for the weights, DeviceError when the weights cannot be copied. After an exception
  /// nothing has changed.
  void sleep(SleepLevel level);
  /// Wakes these parts. Scheduling wakes when weights and cache are both awake.
  /// \throws OutOfMemory when the memory is now in use elsewhere, DeviceError, and what
  /// `read_weights` throws. The part that failed then still sleeps, and the caller may try again.
  void wake_up(EngineParts parts, const ReadWeights& read_weights);
  /// The parts that sleep.
  [[nodiscard]] EngineParts sleeping() const noexcept { return sleeping_; }

 private:
  void wake_weights(const ReadWeights& read_weights);

  device::Device* device_;
  device::DiscardableMemory* memory_;  // the device, or nullptr if it cannot give memory back
  models::Parameters* parameters_;
  std::vector<device::BufferView> caches_;
  EngineParts sleeping_;
  bool weights_are_discarded_ = false;  // the device has no copy of the weights
};

}  // namespace reprise::api
