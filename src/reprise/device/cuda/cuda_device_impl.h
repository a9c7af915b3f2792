#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "reprise/device/cuda/capture.h"
#include "reprise/device/cuda/cuda_device.h"
#include "reprise/device/cuda/cuda_memory.h"
#include "reprise/device/cuda/driver.h"
#include "reprise/device/cuda/kernel_code.h"
#include "reprise/device/discardable_memory.h"
#include "reprise/device/reservable_memory.h"

namespace reprise::device::cuda {

class CudaDevice final : public Device, public DiscardableMemory, public ReservableMemory {
 public:
  CudaDevice(const DriverApi& api, const CudaDeviceOptions& options);
  ~CudaDevice() override;

  [[nodiscard]] std::string_view name() const noexcept override { return driver_.name(); }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] Buffer allocate(size_t bytes) override;
  [[nodiscard]] std::unique_ptr<MemoryPool> create_pool() override;
  [[nodiscard]] std::unique_ptr<Stream> create_stream() override;
  [[nodiscard]] std::unique_ptr<Event> create_event() override;
  [[nodiscard]] std::unique_ptr<GraphExec> instantiate(const Graph& graph) override;
  void load(const Kernel& kernel) override { (void)code_.function_of(kernel); }
  [[nodiscard]] MemoryInfo memory() const override;
  [[nodiscard]] bool can_discard() const noexcept override {
    return memory_.virtual_memory().is_supported();
  }
  void discard(BufferView memory) noexcept override;
  void restore(BufferView memory) override;
  [[nodiscard]] bool can_reserve() const noexcept override { return can_discard(); }
  [[nodiscard]] size_t granularity() const noexcept override {
    return memory_.virtual_memory().granularity();
  }
  [[nodiscard]] Buffer reserve(size_t bytes) override;
  void commit(BufferView buffer, size_t offset, size_t bytes) override;

  [[nodiscard]] const Driver& driver() const noexcept { return driver_; }
  [[nodiscard]] KernelCode& code() noexcept { return code_; }
  [[nodiscard]] StreamList& streams() noexcept { return streams_; }
  /// Whether the kernel itself waits for the kernels ahead of it.
  [[nodiscard]] static bool waits_itself(const Kernel& kernel,
                                         const LoadedFunction& function) noexcept {
    return function.is_generated || kernel.cuda.start != CudaKernelCode::Start::after_previous;
  }
  /// Whether such a kernel begins early. \pre waits_itself()
  [[nodiscard]] bool begins_early(const Kernel& kernel) const noexcept {
    return has_programmatic_launch_ || kernel.cuda.start == CudaKernelCode::Start::early;
  }
  /// Changes the option for later launches; graphs that exist stay unchanged. \pre no thread
  /// launches
  void set_programmatic_launch(bool is_on);
  /// A stream for work of the device itself. It never captures.
  [[nodiscard]] CUstream utility_stream() const noexcept { return memory_.stream(); }

  // Called by streams.
  [[nodiscard]] std::shared_ptr<Capture> open_capture(CudaStream& origin);
  void close_capture(Capture& capture) noexcept;
  /// Invalidates a capture of the calling thread. \throws CaptureError if there is one
  void forbid_while_capturing(const char* call, const char* advice) const;
  /// Takes over a driver's stream that was left in a capture. Only the thread of the capture can
  /// end it, so the stream is ended and destroyed at a later call of that thread, or with the
  /// device.
  void abandon(CUstream stream) noexcept;

 private:
  void free(BufferView view) noexcept override;
  void invalidate_capture(const char* reason) const noexcept;
  [[nodiscard]] Capture* capture_of_this_thread() const noexcept;
  void end_abandoned() noexcept;

  Driver driver_;
  StreamList streams_{driver_};
  CudaMemory memory_;
  KernelCode code_;
  bool has_programmatic_launch_ = false;  // also false if the GPU does not support it
  mutable std::mutex captures_mutex_;
  std::vector<Capture*> captures_;  // open captures; their streams close them
  std::vector<CUstream> abandoned_;
};

}  // namespace reprise::device::cuda
