#include "reprise/device/cuda/kernel_code.h"

#include <fmt/format.h>

#include <algorithm>

namespace reprise::device::cuda {
namespace {

// The shared memory that a block may use without a special request.
constexpr uint32_t kUsualSharedBytes = 48 * 1024;

}  // namespace

KernelCode::~KernelCode() {
  const DriverApi& api = driver_->bound_noexcept();
  for (const auto& [image, module] : modules_) (void)api.module_unload(module);
}

const LoadedFunction& KernelCode::function_of(const Kernel& kernel) {
  const std::lock_guard lock(mutex_);
  const CudaKernelCode& code = kernel.cuda;
  if (const auto found = functions_.find({code.image, code.function}); found != functions_.end()) {
    return found->second;
  }
  if (code.image == nullptr) {
    throw DeviceError(
        fmt::format("{}: launch of {}, which has no CUDA code", driver_->name(), kernel.name));
  }
  const RelaxedCaptureScope allowed(driver_->bound());
  return find(code, kernel.name, /*is_generated=*/false);
}

void KernelCode::load_generated(const void* image, std::span<const std::string> functions) {
  try {
    const std::lock_guard lock(mutex_);
    for (const std::string& function : functions) {
      (void)find({.image = image, .function = function.c_str()},
                 function.c_str(),
                 /*is_generated=*/true);
    }
  } catch (...) {
    unload(image);
    throw;
  }
}

void KernelCode::unload(const void* image) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(functions_, [image](const auto& one) { return one.first.image == image; });
  const auto module = modules_.find(image);
  if (module == modules_.end()) return;
  streams_->synchronize();
  const DriverApi& api = driver_->bound_noexcept();
  const RelaxedCaptureScope allowed(api);
  (void)api.module_unload(module->second);
  modules_.erase(module);
}

const LoadedFunction& KernelCode::find(const CudaKernelCode& code,
                                       const char* name,
                                       bool is_generated) {
  CUfunction function = nullptr;
  const CUmodule module = module_of(code.image);
  driver_->check(driver_->bound().module_get_function(&function, module, code.function),
                 fmt::format("cuModuleGetFunction of {}", code.function).c_str());
  prepare(function, code);
  return functions_
      .insert_or_assign({code.image, code.function}, LoadedFunction{function, is_generated, name})
      .first->second;
}

CUmodule KernelCode::module_of(const void* image) {
  if (const auto found = modules_.find(image); found != modules_.end()) return found->second;
  CUmodule module = nullptr;
  driver_->check(driver_->bound().module_load_data(&module, image),
                 "cuModuleLoadData (an image without code for this GPU?)");
  modules_.emplace(image, module);
  return module;
}

void KernelCode::prepare(CUfunction function, const CudaKernelCode& code) const {
  const auto set = [&](CUfunction_attribute attribute, uint32_t value, const std::string& what) {
    driver_->check(
        driver_->bound().func_set_attribute(function, attribute, static_cast<int>(value)),
        what.c_str());
  };
  // All kernels use the same split between shared memory and cache. A multiprocessor must finish
  // all its blocks before it can change the split, so a kernel with another split could not begin
  // beside the previous one.
  set(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
      CU_SHAREDMEM_CARVEOUT_MAX_SHARED,
      fmt::format("the share of shared memory for {}", code.function));
  if (code.shared_bytes <= kUsualSharedBytes) return;
  set(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
      code.shared_bytes,
      fmt::format("{} bytes of shared memory for {}", code.shared_bytes, code.function));
}

int KernelCode::architecture_of(const Kernel& kernel) {
  int version = 0;
  driver_->check(driver_->bound().func_get_attribute(
                     &version, CU_FUNC_ATTRIBUTE_PTX_VERSION, function_of(kernel).handle),
                 fmt::format("cuFuncGetAttribute of {}", kernel.name).c_str());
  return version;
}

std::string KernelCode::name_of(CUfunction function) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      functions_, [function](const auto& one) { return one.second.handle == function; });
  if (found != functions_.end()) return found->second.name;
  const char* name = nullptr;
  driver_->check(driver_->bound().func_get_name(&name, function), "cuFuncGetName");
  return name != nullptr ? name : "(a library's kernel)";
}

}  // namespace reprise::device::cuda
