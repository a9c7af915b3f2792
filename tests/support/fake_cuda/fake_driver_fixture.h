#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/device/cuda/driver_api.h"

namespace reprise::device::cuda {

/// The arguments of one kernel launch.
struct FakeLaunch {
  const void* parameter = nullptr;  // the only parameter of the kernel
  uint32_t num_blocks = 0;
  uint32_t threads_per_block = 0;
  uint32_t shared_bytes = 0;
  bool is_programmatic = false;  // the kernel may begin before the previous kernel has ended
};

/// A kernel as a function of the host.
struct FakeKernel {
  size_t parameter_bytes = 0;
  std::function<void(const FakeLaunch&)> run;
};

/// A loaded image: returns the kernel with this function name, if the image has one.
using FakeImage = std::function<std::optional<FakeKernel>(const std::string& function)>;
/// Makes an image from the bytes at an address; returns an empty function if the bytes are not an
/// image.
using FakeImageReader = std::function<FakeImage(const void* image)>;

/// The numbers of objects that were made and not yet released.
struct FakeResources {
  size_t contexts = 0;
  size_t allocations = 0;
  size_t reservations = 0;
  size_t physical = 0;
  size_t mappings = 0;
  size_t host_allocations = 0;
  size_t streams = 0;
  size_t events = 0;
  size_t modules = 0;
  size_t graphs = 0;
  size_t executables = 0;

  friend bool operator==(const FakeResources&, const FakeResources&) = default;
};

/// A CUDA driver for tests, in this process: streams, thread-local captures, graphs and memory
/// behave as the driver's documentation says; kernels are host functions. Work runs when it is
/// submitted. The functions of a DriverApi have no object parameter, so at most one FakeDriver may
/// exist at a time.
///
/// Thread-safe. Source of the rules: CUDA 13 driver API reference, "Stream Management", "Graph
/// Management" and "Virtual Memory Management". Two differences: nothing is asynchronous, and a
/// captured event that was never joined is an error only if work follows it.
class FakeDriver {
 public:
  FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;
  ~FakeDriver();

  [[nodiscard]] DriverApi api() const noexcept;
  /// Whether the fake GPU supports virtual memory; true at first.
  void set_virtual_memory(bool has_it);
  /// Adds a kernel, by function name, to every image that read_images() does not read.
  void add_kernel(const std::string& function, FakeKernel kernel);
  /// Sets the reader of images that begin like ELF files; without a reader they are treated as
  /// other images.
  void read_images(FakeImageReader reader);

  /// Numbers the following calls 1, 2, ...; call number `k` returns `error`. A call that releases
  /// an object releases it even when it fails, like real calls that report an error of earlier
  /// work. After a sticky error all later calls return it too. 0 = no call fails.
  void fail_call(uint64_t k, CUresult error = CUDA_ERROR_UNKNOWN);
  [[nodiscard]] uint64_t num_calls() const noexcept;
  /// Name of the call that fail_call() made fail; empty if none has failed yet.
  [[nodiscard]] std::string failed_call() const;
  [[nodiscard]] FakeResources resources() const;
  /// Descriptions of forbidden calls, such as an unknown handle or access outside of memory. Empty
  /// if there were none.
  [[nodiscard]] std::vector<std::string> misuses() const;

  // The functions below are for fakes of libraries that work on the driver's streams.

  /// Numbers a call of a library like a call of the driver. \returns the error that it must report,
  /// or CUDA_SUCCESS
  [[nodiscard]] CUresult enter(const char* call);
  /// Runs `work` now, or records it in the stream's capture.
  [[nodiscard]] CUresult submit(CUstream stream, std::function<void()> work);
  /// Whether the calling thread captures on a stream in a mode other than relaxed.
  [[nodiscard]] bool is_capturing() const;
  [[nodiscard]] bool owns(const void* address, size_t bytes) const;
  void add_misuse(std::string text);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace reprise::device::cuda
