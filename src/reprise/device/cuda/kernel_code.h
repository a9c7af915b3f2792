#pragma once

#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

#include "reprise/device/cuda/driver.h"
#include "reprise/device/kernel.h"

namespace reprise::device::cuda {

/// A function on the GPU.
struct LoadedFunction {
  CUfunction handle = nullptr;
  bool is_generated = false;  // from an image that load_generated() loaded
  std::string name;           // of the first kernel that used the function
};

/// Images and functions that are loaded on the GPU, each only once. Thread-safe.
class KernelCode {
 public:
  explicit KernelCode(const Driver& driver) noexcept : driver_(&driver) {}
  KernelCode(const KernelCode&) = delete;
  KernelCode& operator=(const KernelCode&) = delete;
  ~KernelCode();

  /// The first call loads the function, even while the thread captures. The result is valid until
  /// its image is unloaded. \throws DeviceError
  [[nodiscard]] const LoadedFunction& function_of(const Kernel& kernel);
  /// The kernel's name, or what the driver calls the function. \throws DeviceError
  [[nodiscard]] std::string name_of(CUfunction function) const;

  /// Loads all these functions of an image that is not linked into the program. The image and the
  /// names must stay at their addresses until unload(). \throws DeviceError, OutOfMemory; then
  /// nothing stays loaded
  void load_generated(const void* image, std::span<const std::string> functions);
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

  const Driver* driver_;  // owned by the device
  mutable std::mutex mutex_;
  std::unordered_map<const void*, CUmodule> modules_;  // by image
  std::unordered_map<Key, LoadedFunction, HashKey> functions_;
};

}  // namespace reprise::device::cuda
