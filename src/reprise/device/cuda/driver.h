#pragma once

#include <string>

#include "reprise/device/cuda/driver_api.h"
#include "reprise/device/error.h"

namespace reprise::device::cuda {

/// The driver with one GPU's context. Only this class turns the driver's results into exceptions.
/// Thread-safe; constant after construction. Owns a reference to the context.
class Driver {
 public:
  /// \throws DeviceError when the GPU does not exist
  Driver(const DriverApi& api, int device_index);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver();

  /// The functions, with the context current on the calling thread. \throws DeviceError
  [[nodiscard]] const DriverApi& bound() const {
    check(api_.ctx_set_current(context_), "cuCtxSetCurrent");
    return api_;
  }
  /// For destructors, which must not throw.
  [[nodiscard]] const DriverApi& bound_noexcept() const noexcept {
    (void)api_.ctx_set_current(context_);
    return api_;
  }

  /// \throws CaptureError for calls that a capture forbids, OutOfMemory, DeviceError for other
  /// errors
  void check(CUresult result, const char* call) const {
    if (result != CUDA_SUCCESS) [[unlikely]]
      fail(result, call);
  }
  [[nodiscard]] std::string describe(CUresult result, const char* call) const;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] CUdevice device() const noexcept { return device_; }
  /// \throws DeviceError
  [[nodiscard]] int attribute(CUdevice_attribute attribute) const;

 private:
  [[noreturn]] void fail(CUresult result, const char* call) const;

  DriverApi api_;
  std::string name_;  // "cuda:0"
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
};

/// Whether an error means that the context is lost.
[[nodiscard]] bool is_sticky(CUresult result) noexcept;

/// While this object exists, the calling thread may make calls that its capture would forbid: to
/// allocate memory for the graph pool, or to load a kernel on its first use.
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
  const DriverApi* api_;  // owned by the driver
  // after the exchange: the former mode
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool is_changed_ = false;
};

}  // namespace reprise::device::cuda
