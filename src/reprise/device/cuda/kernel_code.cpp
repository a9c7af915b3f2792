#include "reprise/device/cuda/kernel_code.h"

#include <fmt/format.h>

namespace reprise::device::cuda {
namespace {

// What a block gets without being asked for.
constexpr uint32_t kUsualSharedBytes = 48 * 1024;

}  // namespace

KernelCode::~KernelCode() {
  const DriverApi& api = driver_->bound_noexcept();
  for (const auto& [image, module] : modules_) (void)api.module_unload(module);
}

CUfunction KernelCode::function_of(const Kernel& kernel) {
  const std::lock_guard lock(mutex_);
  if (const auto found = functions_.find(&kernel); found != functions_.end()) return found->second;
  const CudaKernelCode& code = kernel.cuda;
  if (code.image == nullptr) {
    throw DeviceError(
        fmt::format("{}: launch of {}, which has no CUDA code", driver_->name(), kernel.name));
  }
  const DriverApi& api = driver_->bound();
  const RelaxedCaptureScope allowed(api);
  CUfunction function = nullptr;
  driver_->check(api.module_get_function(&function, module_of(code.image), code.function),
                 fmt::format("cuModuleGetFunction of {}", code.function).c_str());
  allow_shared_memory(function, kernel);
  kernels_.emplace(function, &kernel);
  functions_.emplace(&kernel, function);
  return function;
}

CUmodule KernelCode::module_of(const void* image) {
  if (const auto found = modules_.find(image); found != modules_.end()) return found->second;
  CUmodule module = nullptr;
  driver_->check(driver_->bound().module_load_data(&module, image),
                 "cuModuleLoadData (an image without code for this GPU?)");
  modules_.emplace(image, module);
  return module;
}

void KernelCode::allow_shared_memory(CUfunction function, const Kernel& kernel) const {
  if (kernel.cuda.shared_bytes <= kUsualSharedBytes) return;
  driver_->check(
      driver_->bound().func_set_attribute(function,
                                          CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                          static_cast<int>(kernel.cuda.shared_bytes)),
      fmt::format("{} bytes of shared memory for {}", kernel.cuda.shared_bytes, kernel.name)
          .c_str());
}

std::string KernelCode::name_of(CUfunction function) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = kernels_.find(function); found != kernels_.end()) {
    return found->second->name;
  }
  const char* name = nullptr;
  driver_->check(driver_->bound().func_get_name(&name, function), "cuFuncGetName");
  return name != nullptr ? name : "(a library's kernel)";
}

}  // namespace reprise::device::cuda
