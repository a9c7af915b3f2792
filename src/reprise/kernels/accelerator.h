#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reprise/device/code_loader.h"
#include "reprise/device/device.h"
#include "reprise/kernels/device_executor.h"
#include "reprise/kernels/device_ranks.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/kernels/row_sampler.h"

namespace reprise::kernels {

struct AcceleratorOptions {
  int device_index = 0;
  /// Lets a kernel begin while the previous kernel ends, on GPUs that can do this. It is off until
  /// a measurement shows a gain.
  bool programmatic_launch = false;
};

/// Whose attention kernels an executor launches: those of a library where the plug-in has some for
/// the call, those for decoding only, or only the project's own.
enum class AttentionSource : uint8_t { library, library_decoding, own };

/// The sizes of heads for which a library has attention kernels, in bfloat16 and float16: for
/// decoding, and for prompts on compute capability 9.0.
inline constexpr std::array<int64_t, 3> kLibraryDecodingHeads = {64, 128, 256};
inline constexpr std::array<int64_t, 2> kLibraryPromptHeads = {64, 128};

struct ExecutorOptions {
  /// If it is required, a row has the same bits in any launch, many rows take longer, and no kernel
  /// of a library is launched.
  BatchInvariance invariance = BatchInvariance::not_required;
  AttentionSource attention = AttentionSource::library_decoding;
  /// The groups that collective ops name. They must outlive the executor.
  DeviceRankGroups ranks = {};
};

/// The architecture that code is generated for, and the loader that brings the code to the device.
struct CodeTarget {
  std::string architecture;  // in the words of its compilers: "sm_90"
  std::unique_ptr<device::CodeLoader> loader;
};

/// The devices and kernels of a plug-in: GPUs. An accelerator must outlive the objects that it
/// makes.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  /// \throws DeviceError
  [[nodiscard]] virtual std::unique_ptr<device::Device> create_device(
      const AcceleratorOptions& options) = 0;
  /// Sets AcceleratorOptions::programmatic_launch for later launches of a device of this
  /// accelerator. Existing graphs do not change. \pre no thread launches on the device
  virtual void set_programmatic_launch(device::Device& device, bool is_on) = 0;
  /// The number of devices that this process may use.
  [[nodiscard]] virtual int num_devices() const = 0;
  /// Where a device of this accelerator is plugged in: "PCI 0000:3b:00". Two devices of a machine
  /// have the same place only if they are one.
  [[nodiscard]] virtual std::string place_of(device::Device& device) const = 0;
  /// Why devices of this machine cannot exchange data with those of other ranks, and what to do;
  /// empty if they can. Only programs with several ranks call this: it loads a large library.
  [[nodiscard]] virtual std::string why_no_ranks() = 0;
  /// Connects a device with those of the other ranks. All of them call this at the same time.
  /// `device` and `ranks` must outlive the result. \pre why_no_ranks() is empty \throws
  /// parallel::RankError that names a rank, DeviceError, OutOfMemory
  [[nodiscard]] virtual std::unique_ptr<DeviceRanks> join_ranks(device::Device& device,
                                                                parallel::Communicator& ranks) = 0;
  /// Makes an executor for a stream of this accelerator and loads its kernels. \throws
  /// DeviceError, OutOfMemory
  [[nodiscard]] virtual std::unique_ptr<DeviceExecutor> create_executor(
      device::Stream& stream, device::MemoryPool& pool, const ExecutorOptions& options) = 0;
  /// Whether the plug-in has attention kernels of a library (FlashInfer).
  [[nodiscard]] virtual bool has_library_attention() const = 0;
  /// Makes a sampler for a stream of this accelerator and at most `max_rows` rows at a time. It can
  /// count the tokens of up to `most_counted` requests with penalties, if there is room. nullptr:
  /// the vocabulary is too large. \throws DeviceError, OutOfMemory
  [[nodiscard]] virtual std::unique_ptr<RowSampler> create_row_sampler(device::Stream& stream,
                                                                       int32_t max_rows,
                                                                       int64_t vocab_size,
                                                                       int32_t most_counted) = 0;
  /// The kernel that counts the tokens of experts. Arguments: CountExpertsArguments, in one block.
  [[nodiscard]] virtual const device::Kernel& expert_counter() const = 0;
  /// The code target of a device of this accelerator. The device must outlive the loader. \throws
  /// DeviceError
  [[nodiscard]] virtual CodeTarget create_code_target(device::Device& device) = 0;
  /// Sentences about missing parts of this machine: each names the part and the consequence.
  [[nodiscard]] virtual std::span<const std::string> remarks() const = 0;
};

/// An accelerator, or the reason why there is none.
struct LoadedAccelerator {
  std::unique_ptr<Accelerator> accelerator;
  std::string reason;       // empty if there is an accelerator
  bool has_plugin = false;  // this build has a plug-in, which may not be usable here
};

/// Loads the CUDA plug-in from the first of these paths that exists, and looks for a driver. A
/// machine without one is not an error.
[[nodiscard]] LoadedAccelerator load_cuda_plugin(std::span<const std::filesystem::path> paths);

/// The paths of the plug-in, by plugin_paths().
[[nodiscard]] std::vector<std::filesystem::path> default_cuda_plugin_paths();

/// Whether this machine has an NVIDIA driver, for builds without the plug-in.
[[nodiscard]] bool has_cuda_driver();

/// The version of the interface between the plug-in and its loader. Both are built from one tree.
inline constexpr uint32_t kAcceleratorVersion = 9;
inline constexpr const char* kCudaPluginFileName = "reprise_cuda.so";
inline constexpr const char* kAcceleratorEntry = "reprise_create_accelerator";
/// Makes an accelerator, which the caller owns. nullptr: the accelerator cannot be used, and
/// `reason` says why.
using AcceleratorEntry = Accelerator* (*)(uint32_t version, std::string& reason);

}  // namespace reprise::kernels
