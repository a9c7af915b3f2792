#include "tests/support/fake_cuda/fake_driver_state_fixture.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace reprise::device::cuda::fake_driver {

namespace {

std::optional<FakeKernel> find_kernel(const std::string& function) {
  const auto found = fake->kernels.find(function);
  if (found == fake->kernels.end()) return std::nullopt;
  return found->second;
}

bool runs_function_of(const Node& node, const Module& module) {
  return std::ranges::any_of(module.functions, [&](const auto& one) {
    return node.function == reinterpret_cast<CUfunction>(const_cast<Function*>(&one.second));
  });
}

bool runs_function_of(const Handles<Graph>& graphs, const Module& module) {
  return std::ranges::any_of(graphs, [&](const auto& graph) {
    return std::ranges::any_of(graph->nodes,
                               [&](const auto& node) { return runs_function_of(*node, module); });
  });
}

}  // namespace

CUresult module_load_data(CUmodule* module, const void* image) {
  REPRISE_FAKE_ENTER("cuModuleLoadData");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  Module made{.image = find_kernel, .functions = {}};
  if (fake->image_reader && std::memcmp(image, ELFMAG, SELFMAG) == 0) {
    made.image = fake->image_reader(image);
    if (!made.image) return CUDA_ERROR_INVALID_IMAGE;
  }
  *module = reinterpret_cast<CUmodule>(fake->modules.make(std::move(made)));
  return CUDA_SUCCESS;
}

CUresult module_unload(CUmodule handle) {
  REPRISE_FAKE_RELEASE("cuModuleUnload");
  if (const CUresult unsafe = fake->enter_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  if (!fake->modules.has(handle)) return fake->misuse("cuModuleUnload of no module");
  const auto& module = *reinterpret_cast<const Module*>(handle);
  if (runs_function_of(fake->graphs, module) || runs_function_of(fake->executables, module)) {
    (void)fake->misuse("cuModuleUnload of code that graphs run");
  }
  if (fake->is_queued([&](const Node& node) { return runs_function_of(node, module); })) {
    (void)fake->misuse("cuModuleUnload of code that queued launches run");
    fake->drain_all();
  }
  fake->modules.erase(handle);
  return result;
}

CUresult module_get_function(CUfunction* function, CUmodule handle, const char* name) {
  REPRISE_FAKE_ENTER("cuModuleGetFunction");
  auto& module = *reinterpret_cast<Module*>(handle);
  auto found = module.functions.find(name);
  if (found == module.functions.end()) {
    std::optional<FakeKernel> kernel = module.image(name);
    if (!kernel) return CUDA_ERROR_NOT_FOUND;
    found = module.functions.emplace(name, Function{name, std::move(*kernel)}).first;
  }
  *function = reinterpret_cast<CUfunction>(&found->second);
  return CUDA_SUCCESS;
}

CUresult func_get_attribute(int* value, CUfunction_attribute attribute, CUfunction) {
  REPRISE_FAKE_ENTER("cuFuncGetAttribute");
  if (attribute != CU_FUNC_ATTRIBUTE_PTX_VERSION) return CUDA_ERROR_INVALID_VALUE;
  *value = fake->architecture_of_code;
  return CUDA_SUCCESS;
}

CUresult func_set_attribute(CUfunction, CUfunction_attribute attribute, int value) {
  REPRISE_FAKE_ENTER("cuFuncSetAttribute");
  const bool is_share = attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;  // percent
  return value <= (is_share ? 100 : fake->block_shared_bytes) ? CUDA_SUCCESS
                                                              : CUDA_ERROR_INVALID_VALUE;
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
  const double microseconds =
      fake->time_of_kernels ? fake->time_of_kernels(function->name, config->gridDimX) : 1;
  return fake->submit(
      config->hStream,
      {.type = CU_GRAPH_NODE_TYPE_KERNEL,
       .function = handle,
       .num_blocks = config->gridDimX,
       .threads_per_block = config->blockDimX,
       .shared_bytes = config->sharedMemBytes,
       .is_programmatic = is_programmatic,
       .parameter = std::vector<std::byte>(begin, begin + function->kernel.parameter_bytes),
       .microseconds = microseconds});
}

}  // namespace reprise::device::cuda::fake_driver
