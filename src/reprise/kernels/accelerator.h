#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reprise/device/code_loader.h"
#include "reprise/device/device.h"
#include "reprise/kernels/device_executor.h"
#include "reprise/kernels/row_sampler.h"

namespace reprise::kernels {

struct AcceleratorOptions {
  int device_index = 0;
  /// Kernels begin while the one ahead ends, where the GPU can. Off until it is measured to pay.
  bool programmatic_launch = false;
};

/// What code generated for a device is made for, and what brings it there.
struct CodeTarget {
  std::string architecture;  // as compilers for it say: "sm_90"
  std::unique_ptr<device::CodeLoader> loader;
};

/// Devices and kernels that a plug-in brings: GPUs. It must outlive what it made.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  /// \throws DeviceError
  [[nodiscard]] virtual std::unique_ptr<device::Device> create_device(
      const AcceleratorOptions& options) = 0;
  /// Like the option, for later launches of a device of this accelerator; graphs stay what they
  /// are. While nobody launches.
  virtual void set_programmatic_launch(device::Device& device, bool is_on) = 0;
  /// Of a device of this accelerator. Loads its kernels. \throws DeviceError, OutOfMemory
  [[nodiscard]] virtual std::unique_ptr<DeviceExecutor> create_executor(
      device::Stream& stream, device::MemoryPool& pool) = 0;
  /// Of a stream of this accelerator, for at most so many rows at a time; nullptr for a vocabulary
  /// that it cannot do. \throws DeviceError, OutOfMemory
  [[nodiscard]] virtual std::unique_ptr<RowSampler> create_row_sampler(device::Stream& stream,
                                                                       int32_t max_rows,
                                                                       int64_t vocab_size) = 0;
  /// Of a device of this accelerator, which must outlive the loader. \throws DeviceError
  [[nodiscard]] virtual CodeTarget create_code_target(device::Device& device) = 0;
  /// What this machine lacks and how it goes without, a line each.
  [[nodiscard]] virtual std::span<const std::string> remarks() const = 0;
};

/// An accelerator, or why there is none.
struct LoadedAccelerator {
  std::unique_ptr<Accelerator> accelerator;
  std::string reason;       // empty if there is one
  bool has_plugin = false;  // this build has one, whether or not it can be used here
};

/// Loads the CUDA plug-in from the first of these paths where it is, and looks for a driver. None
/// is an answer, not an error.
[[nodiscard]] LoadedAccelerator load_cuda_plugin(std::span<const std::filesystem::path> paths);

/// Where it is looked for: next to the running executable, and in ../lib of that.
[[nodiscard]] std::vector<std::filesystem::path> default_cuda_plugin_paths();

/// What the plug-in and its loader agree on. Both are built from one tree.
inline constexpr uint32_t kAcceleratorVersion = 5;
inline constexpr const char* kCudaPluginFileName = "reprise_cuda.so";
inline constexpr const char* kAcceleratorEntry = "reprise_create_accelerator";
/// nullptr, and the reason, where it cannot be used; else the caller owns the accelerator.
using AcceleratorEntry = Accelerator* (*)(uint32_t version, std::string& reason);

}  // namespace reprise::kernels
