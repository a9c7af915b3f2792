#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "reprise/device/cuda/driver.h"
#include "reprise/device/kernel.h"

namespace reprise::device::cuda {

/// Images and functions that were brought to the GPU, each once. Thread-safe.
class KernelCode {
 public:
  explicit KernelCode(const Driver& driver) noexcept : driver_(&driver) {}
  KernelCode(const KernelCode&) = delete;
  KernelCode& operator=(const KernelCode&) = delete;
  ~KernelCode();

  /// Loads it on the first call, also while the thread captures. \throws DeviceError
  [[nodiscard]] CUfunction function_of(const Kernel& kernel);
  /// The kernel's name, or what the driver calls the function. \throws DeviceError
  [[nodiscard]] std::string name_of(CUfunction function) const;

 private:
  CUmodule module_of(const void* image);
  void allow_shared_memory(CUfunction function, const Kernel& kernel) const;

  const Driver* driver_;  // the device's
  mutable std::mutex mutex_;
  std::unordered_map<const void*, CUmodule> modules_;           // by image
  std::unordered_map<const Kernel*, CUfunction> functions_;
  std::unordered_map<CUfunction, const Kernel*> kernels_;
};

}  // namespace reprise::device::cuda
