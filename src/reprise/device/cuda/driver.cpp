#include "reprise/device/cuda/driver.h"

#include <fmt/format.h>

namespace reprise::device::cuda {
namespace {

bool is_capture_error(CUresult result) noexcept {
  return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
         result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

}  // namespace

bool is_sticky(CUresult result) noexcept {
  switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:  // an internal error of the driver, mostly after a fault
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
      return true;
    default:
      return false;
  }
}

Driver::Driver(const DriverApi& api, int device_index)
    : api_(api), name_(fmt::format("cuda:{}", device_index)) {
  check(api_.init(0), "cuInit");
  int count = 0;
  check(api_.device_get_count(&count), "cuDeviceGetCount");
  if (device_index < 0 || device_index >= count) {
    throw DeviceError(
        fmt::format("{}: this machine has {} NVIDIA GPU{}", name_, count, count == 1 ? "" : "s"));
  }
  check(api_.device_get(&device_, device_index), "cuDeviceGet");
  check(api_.contexts->retain(api_.device_primary_ctx_retain, device_, context_),
        "cuDevicePrimaryCtxRetain");
}

CUresult Driver::make_current() const noexcept {
  const CUresult result = api_.ctx_set_current(context_.handle);
  if (result == CUDA_SUCCESS) current_context_number = context_.number;
  return result;
}

void Driver::require_context() const {
  size_t free = 0;
  size_t total = 0;
  const CUresult result = bound().mem_get_info(&free, &total);
  if (is_sticky(result)) fail(result, "cuMemGetInfo");
}

int Driver::attribute(CUdevice_attribute attribute) const {
  int value = 0;
  check(api_.device_get_attribute(&value, attribute, device_), "cuDeviceGetAttribute");
  return value;
}

std::string Driver::describe(CUresult result, const char* call) const {
  const char* name = nullptr;
  const char* text = nullptr;
  (void)api_.get_error_name(result, &name);
  (void)api_.get_error_string(result, &text);
  return fmt::format("{}: {}: {} ({})",
                     name_,
                     call,
                     name != nullptr ? name : "an error without a name",
                     text != nullptr ? text : fmt::format("code {}", static_cast<int>(result)));
}

void Driver::fail(CUresult result, const char* call) const {
  const std::string message = describe(result, call);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) throw OutOfMemory(message);
  if (is_capture_error(result)) throw CaptureError(message);
  if (is_sticky(result)) {
    throw DeviceError(message + "; the GPU's context is lost: restart the process",
                      DeviceError::Severity::sticky);
  }
  throw DeviceError(message);
}

}  // namespace reprise::device::cuda
