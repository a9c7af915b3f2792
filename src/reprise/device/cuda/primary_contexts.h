#pragma once

#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>

namespace reprise::device::cuda {

/// The contexts that this process uses: the primary context of each GPU, retained at its first use
/// and kept. Making a context takes tenths of a second and some hundred MB of the GPU, so devices
/// that come and go share one. The contexts are never released: they end with the process, when the
/// driver may already be gone. Thread-safe.
class PrimaryContexts {
 public:
  struct Context {
    CUcontext handle = nullptr;
    uint64_t number = 0;  // unique in this process; 0: no context
  };

  /// Sets `context` to the GPU's context. \returns the driver's result; if it is not CUDA_SUCCESS,
  /// nothing was retained
  [[nodiscard]] CUresult retain(decltype(&::cuDevicePrimaryCtxRetain) retain_context,
                                CUdevice device,
                                Context& context) {
    const std::lock_guard lock(mutex_);
    if (const auto found = contexts_.find(device); found != contexts_.end()) {
      context = found->second;
      return CUDA_SUCCESS;
    }
    Context made;
    const CUresult result = retain_context(&made.handle, device);
    if (result != CUDA_SUCCESS) return result;
    // Making a context takes longer than a tick of this clock, and contexts are made one after the
    // other, so the numbers differ.
    made.number =
        static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    contexts_.emplace(device, made);
    context = made;
    return CUDA_SUCCESS;
  }

 private:
  std::mutex mutex_;
  std::map<CUdevice, Context> contexts_;
};

}  // namespace reprise::device::cuda
