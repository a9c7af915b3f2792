#pragma once

#include <cstdint>
#include <string>

#include "reprise/device/cuda/driver_api.h"
#include "reprise/device/error.h"

namespace reprise::device::cuda {

/// The number of the context that Driver has made current on this thread; 0: none. The variable
/// copies a state of the driver, which is also per thread: without it, half of all calls of a step
/// would make the same context current again. Other code on a thread that calls Reprise must
/// therefore not leave another GPU's context current.
inline thread_local uint64_t current_context_number = 0;

/// The driver with one GPU's context. It makes calls, and it is the only place that turns their
/// results into exceptions. Thread-safe; constant after construction. Uses the process's reference
/// to the context.
class Driver {
 public:
  /// \throws DeviceError when there is no such GPU
  Driver(const DriverApi& api, int device_index);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver() = default;

  /// The driver's functions, with the context current on the calling thread. \throws DeviceError
  [[nodiscard]] const DriverApi& bound() const {
    if (current_context_number != context_.number) [[unlikely]]
      check(make_current(), "cuCtxSetCurrent");
    return api_;
  }
  /// For destructors, which must not throw.
  [[nodiscard]] const DriverApi& bound_noexcept() const noexcept {
    if (current_context_number != context_.number) [[unlikely]]
      (void)make_current();
    return api_;
  }

  /// \throws CaptureError for calls that a capture forbids, OutOfMemory, DeviceError for all other
  /// errors
  void check(CUresult result, const char* call) const {
    if (result != CUDA_SUCCESS) [[unlikely]]
      fail(result, call);
  }
  [[nodiscard]] std::string describe(CUresult result, const char* call) const;
  /// For failures of a library, which does not say whether the context is lost.
  /// \throws DeviceError if it is lost
  void require_context() const;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] CUdevice device() const noexcept { return device_; }
  /// \throws DeviceError
  [[nodiscard]] int attribute(CUdevice_attribute attribute) const;

 private:
  [[noreturn]] void fail(CUresult result, const char* call) const;
  [[nodiscard]] CUresult make_current() const noexcept;

  DriverApi api_;
  std::string name_;  // "cuda:0"
  CUdevice device_ = 0;
  PrimaryContexts::Context context_;
};

/// Whether an error means that the context is lost.
[[nodiscard]] bool is_sticky(CUresult result) noexcept;

/// For its lifetime, allows calls on the calling thread that a capture of this thread would forbid:
/// allocating memory of the graph pool, loading the code of a kernel at its first launch, waiting
/// for the work of streams and code that are destroyed.
class RelaxedCaptureScope {
 public:
  explicit RelaxedCaptureScope(const DriverApi& api) noexcept : api_(&api) {
    is_changed_ = api_->thread_exchange_capture_mode(&mode_) == CUDA_SUCCESS;
  }
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;
  ~RelaxedCaptureScope() {
    if (is_changed_) (void)api_->thread_exchange_capture_mode(&mode_);
  }

 private:
  const DriverApi* api_;                                       // owned by the driver object
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // the exchange stores the old mode
  bool is_changed_ = false;
};

}  // namespace reprise::device::cuda
