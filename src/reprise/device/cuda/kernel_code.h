#pragma once

#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

#include "reprise/device/cuda/driver.h"
#include "reprise/device/cuda/stream_list.h"
#include "reprise/device/kernel.h"

namespace reprise::device::cuda {

/// A loaded function on the GPU.
struct LoadedFunction {
  CUfunction handle = nullptr;
  bool is_generated = false;  // loaded by load_generated()
  std::string name;           // the name of the first kernel that used the function
};

/// The images and functions that are loaded on the GPU, each only once. Thread-safe.
class KernelCode {
 public:
  KernelCode(const Driver& driver, const StreamList& streams) noexcept
      : driver_(&driver), streams_(&streams) {}
  KernelCode(const KernelCode&) = delete;
  KernelCode& operator=(const KernelCode&) = delete;
  ~KernelCode();

  /// Returns the kernel's function and loads it on the first call, also while the thread captures;
  /// valid until its image is unloaded.
  /// \throws DeviceError
  [[nodiscard]] const LoadedFunction& function_of(const Kernel& kernel);
  /// The architecture of the PTX from which the kernel's code was compiled, such as 90: here or, if
  /// the image has no machine code for this GPU, by the driver from PTX of an older architecture.
  /// Loads the kernel. \throws DeviceError
  [[nodiscard]] int architecture_of(const Kernel& kernel);
  /// The kernel's name, or the driver's name of the function. \throws DeviceError
  [[nodiscard]] std::string name_of(CUfunction function) const;

  /// Loads all these functions of an image that was not linked into the program. The image and the
  /// names must stay at their addresses until unload(). \throws DeviceError, OutOfMemory; then
  /// nothing is left loaded
  void load_generated(const void* image, std::span<const std::string> functions);
  /// Waits for the work of all streams, whose launches may still use the code.
  void unload(const void* image) noexcept;

 private:
  /// Identifies a function by the addresses of its image and of its name.
  struct Key {
    const void* image;
    const char* function;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct HashKey {
    size_t operator()(const Key& key) const noexcept {
      return std::hash<const void*>()(key.image) * 31 + std::hash<const void*>()(key.function);
    }
  };

  CUmodule module_of(const void* image);
  const LoadedFunction& find(const CudaKernelCode& code, const char* name, bool is_generated);
  void prepare(CUfunction function, const CudaKernelCode& code) const;

  const Driver* driver_;       // owned by the device
  const StreamList* streams_;  // owned by the device
  mutable std::mutex mutex_;
  std::unordered_map<const void*, CUmodule> modules_;  // by image
  std::unordered_map<Key, LoadedFunction, HashKey> functions_;
};

}  // namespace reprise::device::cuda
