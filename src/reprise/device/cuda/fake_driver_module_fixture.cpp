#include "reprise/device/cuda/fake_driver_state_fixture.h"

#include <utility>

namespace reprise::device::cuda::fake_driver {

CUresult module_load_data(CUmodule* module, const void*) {
  REPRISE_FAKE_ENTER("cuModuleLoadData");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  Module made;
  for (const auto& [name, kernel] : fake->kernels) made.functions[name] = {name, kernel};
  *module = reinterpret_cast<CUmodule>(fake->modules.make(std::move(made)));
  return CUDA_SUCCESS;
}

CUresult module_unload(CUmodule module) {
  REPRISE_FAKE_RELEASE("cuModuleUnload");
  if (!fake->modules.has(module)) return fake->misuse("cuModuleUnload of no module");
  fake->modules.erase(module);
  return result;
}

CUresult module_get_function(CUfunction* function, CUmodule handle, const char* name) {
  REPRISE_FAKE_ENTER("cuModuleGetFunction");
  auto& functions = reinterpret_cast<Module*>(handle)->functions;
  const auto found = functions.find(name);
  if (found == functions.end()) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(&found->second);
  return CUDA_SUCCESS;
}

CUresult func_set_attribute(CUfunction, CUfunction_attribute, int value) {
  REPRISE_FAKE_ENTER("cuFuncSetAttribute");
  return value <= 227 * 1024 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult func_get_name(const char** name, CUfunction function) {
  REPRISE_FAKE_ENTER("cuFuncGetName");
  *name = reinterpret_cast<const Function*>(function)->name.c_str();
  return CUDA_SUCCESS;
}

CUresult launch_kernel(const CUlaunchConfig* config,
                       CUfunction handle,
                       void** parameters,
                       void** extra) {
  REPRISE_FAKE_ENTER("cuLaunchKernelEx");
  if (fake->current[std::this_thread::get_id()] == nullptr) {
    return fake->misuse("a launch without a context", CUDA_ERROR_INVALID_CONTEXT);
  }
  const bool is_valid = config->gridDimX > 0 && config->gridDimY == 1 && config->gridDimZ == 1 &&
                        config->blockDimX > 0 && config->blockDimX <= 1024 &&
                        config->blockDimY == 1 && config->blockDimZ == 1 && extra == nullptr;
  if (!is_valid) return CUDA_ERROR_INVALID_VALUE;
  bool is_programmatic = false;
  for (unsigned int i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    is_programmatic = config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
  }
  const auto* function = reinterpret_cast<const Function*>(handle);
  const auto* begin = static_cast<const std::byte*>(parameters[0]);
  return fake->submit(
      config->hStream,
      {.type = CU_GRAPH_NODE_TYPE_KERNEL,
       .function = handle,
       .num_blocks = config->gridDimX,
       .threads_per_block = config->blockDimX,
       .shared_bytes = config->sharedMemBytes,
       .is_programmatic = is_programmatic,
       .parameter = std::vector<std::byte>(begin, begin + function->kernel.parameter_bytes)});
}

}  // namespace reprise::device::cuda::fake_driver
