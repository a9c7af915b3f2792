#pragma once

#include <cstdint>
#include <functional>

#include "reprise/device/device.h"

namespace reprise::models {

/// Runs the parts of a job on the workers of a device. A device that is not the host itself has
/// none; then each run of several parts has threads of its own, one for each usable core and at
/// most
/// 16. Used while loading and for sampling, when the workers have nothing else to do.
class PartRunner {
 public:
  /// The stream must outlive this object.
  explicit PartRunner(device::Stream& stream) : stream_(&stream) {}

  /// Calls `run_part(i)` for all parts, in any order and from several threads, and returns when all
  /// are done. If parts throw, rethrows the exception of the lowest of them; later parts may then
  /// be left out.
  void run(int64_t num_parts, const std::function<void(int64_t part)>& run_part);

 private:
  device::Stream* stream_;
};

}  // namespace reprise::models
