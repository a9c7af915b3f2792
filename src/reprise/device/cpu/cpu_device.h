#pragma once

#include <memory>
#include <optional>
#include <string>

#include "reprise/device/cpu/worker_placement.h"
#include "reprise/device/device.h"

namespace reprise::device {

struct CpuDeviceOptions {
  /// Number of workers, including the calling thread. 0: one per core that this process may use (by
  /// affinity mask and container quota). A larger number is reduced to the number of these cores,
  /// because additional threads would only wait for each other.
  int num_threads = 0;
  /// true: worker i > 0 runs only on the i-th core of the process's affinity mask. Worker 0 is the
  /// thread that launches. It belongs to the caller and is never pinned.
  bool pin_threads = true;
  /// How long an idle worker spins, in microseconds. After that it yields for half a millisecond,
  /// and then it sleeps. While it yields, other processes can use the core, and the next step need
  /// not wake it up.
  int spin_us = 50;
  /// The workers and their CPUs. If set, num_threads and pin_threads have no effect.
  std::optional<WorkerPlacement> placement = std::nullopt;
  /// true: num_threads may exceed the number of cores. For tests of many workers on small machines.
  bool allow_oversubscription = false;
};

/// Creates the CPU device. Its team of workers lives as long as the device; worker 0 is the
/// launching thread.
[[nodiscard]] std::unique_ptr<Device> create_cpu_device(const CpuDeviceOptions& options = {});

/// The name of the limit from which MemoryInfo::total of a CPU comes ("memory.max of
/// /sys/fs/cgroup"); empty: the total is the machine's memory.
[[nodiscard]] std::string tightest_memory_limit();

}  // namespace reprise::device
