#pragma once

#include <functional>

#include "reprise/api/sleep.h"
#include "reprise/device/device.h"
#include "reprise/device/discardable_memory.h"
#include "reprise/models/parameters.h"

namespace reprise::api {

/// The memory of an engine that it can do without while it sleeps: weights and KV cache. They give
/// it back and get other memory at the same addresses, so that captured graphs stay valid.
///
/// Where weights are read from host memory anyway, level 1 leaves them where they are. Not
/// thread-safe; nothing may be in flight during a call, and no step may run while a part sleeps.
/// Borrows the device and its weights.
class EngineMemory {
 public:
  /// Puts the weights' contents where they are to be, from where they came.
  using ReadWeights = std::function<void()>;

  EngineMemory(device::Device& device, models::Parameters& parameters, device::BufferView kv_cache);

  /// Sleeps at this level, deeper than before or as deep. Level 1 copies weights to the host first.
  /// \throws InvalidArgument where the device's memory cannot be given back, OutOfMemory when the
  /// host has no room for the weights, DeviceError when they cannot be copied; then nothing has
  /// changed
  void sleep(SleepLevel level);
  /// Wakes these parts; with weights and cache awake scheduling is too. \throws OutOfMemory when
  /// others took the memory meanwhile, DeviceError, whatever `read_weights` throws: that part
  /// sleeps on with all that it needs, and this may be called again
  void wake_up(EngineParts parts, const ReadWeights& read_weights);
  /// What sleeps.
  [[nodiscard]] EngineParts sleeping() const noexcept { return sleeping_; }

 private:
  void wake_weights(const ReadWeights& read_weights);

  device::Device* device_;
  device::DiscardableMemory* memory_;  // the device; nullptr when it cannot give memory back
  models::Parameters* parameters_;
  device::BufferView kv_cache_;
  EngineParts sleeping_;
  bool weights_are_discarded_ = false;  // their contents are not on the device
};

}  // namespace reprise::api
