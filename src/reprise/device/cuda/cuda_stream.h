#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reprise/device/cuda/capture.h"
#include "reprise/device/cuda/pinned_staging.h"
#include "reprise/device/device.h"

namespace reprise::device::cuda {

class CudaDevice;

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(CudaDevice& device);
  ~CudaEvent() override;

  [[nodiscard]] bool is_complete() const override;
  void synchronize() const override;

 private:
  friend class CudaStream;
  void require_host_state(const char* call) const;

  CudaDevice* device_;  // the device that made this event
  CUevent handle_ = nullptr;
  // Atomic because an eager event may be recorded on one thread and waited for on another. The
  // other members belong to the capturing thread.
  std::atomic<bool> is_captured_{false};
  std::weak_ptr<Capture> capture_;
};

/// A stream of the driver. While it captures, this class refuses the calls that the contract
/// forbids before they reach the driver.
class CudaStream final : public Stream {
 public:
  explicit CudaStream(CudaDevice& device);
  ~CudaStream() override;

  void launch(const Launch& launch) override;
  void copy(void* destination, const void* source, size_t bytes) override;
  void fill(void* destination, std::byte value, size_t bytes) override;
  void copy_from_host(void* destination, const void* source, size_t bytes) override;
  void copy_to_host(void* destination, const void* source, size_t bytes) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;
  void begin_capture() override;
  [[nodiscard]] std::unique_ptr<Graph> end_capture() override;
  void abort_capture() noexcept override;
  [[nodiscard]] bool is_capturing() const noexcept override { return capture_ != nullptr; }
  [[nodiscard]] const LaunchCounters& counters() const noexcept override { return counters_; }
  [[nodiscard]] Device& device() const noexcept override;

  /// Runs work that a library submits to the driver's stream: counts as one launch.
  /// `uses`: every buffer that it reads or writes. `submit(CUstream)` returns nullptr or the error
  /// text; an error makes an open capture invalid.
  /// \throws DeviceError
  template <typename Submit>
  void launch_library(const char* name, std::span<const BufferUse> uses, const Submit& submit) {
    finish_library(name, uses, submit(begin_library()));
  }
  /// For a library's call that failed: an open capture becomes invalid.
  /// \throws CaptureError in a capture, otherwise DeviceError; sticky if the context is lost
  [[noreturn]] void fail_library(const char* name, const char* failure);
  void launch(CUgraphExec exec);
  /// The driver's stream, for events of the driver. \pre no capture
  /// \throws CaptureError, DeviceError
  [[nodiscard]] CUstream handle() const;

  /// Whether the next kernel may read this memory before it waits for the kernels ahead of it: the
  /// last kernel does not write the memory, and began when all work before it had ended.
  [[nodiscard]] bool is_settled_early(const void* data, size_t bytes) const noexcept;

  /// Called by Capture when it is over.
  void leave_capture() noexcept {
    capture_.reset();
    follows_waiting_kernel_ = false;
  }

 private:
  [[nodiscard]] CUstream begin_library() const;
  void finish_library(const char* name, std::span<const BufferUse> uses, const char* failure);
  /// Counts an accepted submission; a refused one invalidates the capture.
  void finish_submission(CUresult result, const char* call);
  void forbid_while_capturing(const char* call, const char* advice) const;
  /// The same for calls in which the host waits for this stream: they are also forbidden while the
  /// calling thread captures on another stream.
  void forbid_wait_while_capturing(const char* call, const char* advice) const;
  void require_launchable(const Launch& launch) const;
  void require_handle() const;
  /// Leaves the driver's stream behind in a capture and continues with a new one.
  void replace_handle() noexcept;
  [[nodiscard]] std::unique_ptr<Graph> take_graph();

  CudaDevice* device_;  // the device that made this stream
  CUstream handle_ = nullptr;
  std::shared_ptr<Capture> capture_;
  PinnedStaging staging_;
  LaunchCounters counters_;
  /// Whether the last work on this stream was a kernel that lets the next kernel begin early. An
  /// early start is requested only between two such kernels, because the driver's documentation
  /// does not say enough about copies, fills, libraries and events next to them, in captures or
  /// outside.
  bool follows_waiting_kernel_ = false;
  /// The last kernel. Only of use while follows_waiting_kernel_.
  struct LastKernel {
    bool began_early = false;
    std::vector<BufferUse> uses;
  };
  LastKernel last_;
};

}  // namespace reprise::device::cuda
