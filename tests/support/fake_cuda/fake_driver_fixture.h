#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

/// The objects that were made and not yet released. Contexts are kept by the process.
struct FakeResources {
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

/// Work of a library that exchanges data with other GPUs. A stream gets to it, begins it, and goes
/// on when the other GPUs have begun theirs.
struct FakeExchange {
  std::function<uint64_t()> begin;  // returns the number of this run
  std::function<bool(uint64_t)> is_ready;
  std::function<void(uint64_t)> finish;
};

/// Decides when the fake GPU does its work. 0: as late as possible, when the host waits for the
/// work. Other numbers: some work also runs earlier, at calls that a generator with this seed
/// chooses.
enum class FakeSchedule : uint64_t {};

/// The number in the environment variable REPRISE_FAKE_SCHEDULE; 0 without it.
[[nodiscard]] FakeSchedule fake_schedule_of_environment();

/// A CUDA driver for tests, in this process: streams, thread-local captures, graphs and memory as
/// the driver's documentation describes them, with kernels that are host functions. Functions of a
/// DriverApi know no object, so there is at most one at a time.
///
/// Streams queue their work. The calling thread runs it when a call waits for it, or earlier as the
/// schedule says. So work that uses memory which was unmapped, code which was unloaded, or a
/// page-locked buffer which the host has changed since, shows as it would on a GPU. Work on
/// addresses without memory reads NaNs, counts as a misuse, and loses the context.
///
/// Thread-safe. Source of the rules: CUDA 13 driver API reference, "Stream Management", "Graph
/// Management", "Virtual Memory Management" and "API synchronization behavior"; differs in that a
/// graph's nodes run in the order of their capture and that a captured event which was never joined
/// counts only when work stands behind it.
class FakeDriver {
 public:
  explicit FakeDriver(FakeSchedule schedule = fake_schedule_of_environment());
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;
  ~FakeDriver();

  [[nodiscard]] DriverApi api() const noexcept;
  /// Whether the fake GPU supports virtual memory; true at first.
  void set_virtual_memory(bool has_it);
  /// The number of GPUs; 1 at first. They share the count of memory. Work of each is done in the
  /// order of its streams; one that waits for another lets the other GPUs work.
  void set_num_gpus(int num_gpus);
  /// From now on a thread of the fake does work of the GPUs, for ranks that are processes: no call
  /// of this process does the work for which another process waits.
  void work_in_background();
  /// The GPU's memory; 4 GiB at first. \pre nothing is allocated
  void set_total_memory(size_t bytes);
  /// Adds a kernel, by function name, to every image that read_images() does not read.
  void add_kernel(const std::string& function, FakeKernel kernel);
  /// Sets the reader of images that begin like ELF files; without a reader they are treated as
  /// other images.
  void read_images(FakeImageReader reader);

  /// The next calls are numbered 1, 2, ...; call number `k` returns `error`. A call that releases
  /// an object releases it even then, like real calls that report an error of earlier work. After a
  /// sticky error all later calls return it too. 0 = no call fails.
  void fail_call(uint64_t k, CUresult error = CUDA_ERROR_NOT_PERMITTED);
  [[nodiscard]] uint64_t num_calls() const noexcept;
  /// Calls of one function since the fake was made, such as "cuLaunchKernelEx".
  [[nodiscard]] uint64_t num_calls(std::string_view function) const;
  /// Bytes that copies from the host were asked to move since the fake was made.
  [[nodiscard]] uint64_t bytes_from_host() const;
  /// Name of the call that failed as asked; empty if none did.
  [[nodiscard]] std::string failed_call() const;
  [[nodiscard]] FakeResources resources() const;
  /// Calls that no program may make: an unknown handle, work outside its memory. Empty if all is
  /// well.
  [[nodiscard]] std::vector<std::string> misuses() const;
  /// From now on `observer` is called with the name of each call before the call begins, on the
  /// calling thread. The observer may wait. An empty function removes the observer.
  void observe(std::function<void(std::string_view call)> observer);

  /// Sets the time that kernels take on the fake GPU's clock, in microseconds, by function name and
  /// number of blocks. Without it, and for copies and fills, all work takes 1 us.
  void set_time_of_kernels(
      std::function<double(const std::string& function, uint32_t num_blocks)> time);

  /// Sets the architecture from whose PTX all code was compiled. Without it: 90.
  void set_architecture_of_code(int architecture);
  /// The most shared memory of a block. Kernels with more do not load.
  void set_block_shared_bytes(int bytes);

  // The functions below are for fakes of libraries that work on the driver's streams.

  /// Numbers a call of a library like a call of the driver. \returns the error that it must report,
  /// or CUDA_SUCCESS
  [[nodiscard]] CUresult enter(const char* call);
  /// Queues `work`, or records it in the stream's capture. It takes this time on the GPU's clock.
  [[nodiscard]] CUresult submit(CUstream stream,
                                std::function<void()> work,
                                double microseconds = 1);
  [[nodiscard]] CUresult submit(CUstream stream, FakeExchange exchange);
  /// Memory of the GPU that a library takes for itself, in all.
  void set_library_memory(size_t bytes);
  /// The GPU of the calling thread's context.
  [[nodiscard]] int gpu_of_thread() const;
  /// Whether the calling thread captures on a stream in a mode other than relaxed.
  [[nodiscard]] bool is_capturing() const;
  [[nodiscard]] bool owns(const void* address, size_t bytes) const;
  void add_misuse(std::string text);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace reprise::device::cuda
