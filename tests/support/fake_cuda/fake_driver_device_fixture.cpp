#include "tests/support/fake_cuda/fake_driver_state_fixture.h"

#include <cstring>

namespace reprise::device::cuda::fake_driver {

CUresult init(unsigned int) {
  REPRISE_FAKE_ENTER("cuInit");
  return CUDA_SUCCESS;
}

CUresult driver_get_version(int* version) {
  REPRISE_FAKE_ENTER("cuDriverGetVersion");
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult get_error_name(CUresult result, const char** name) {
  *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}

CUresult get_error_string(CUresult, const char** text) {
  *text = "as the test asked";
  return CUDA_SUCCESS;
}

CUresult device_get(CUdevice* device, int index) {
  REPRISE_FAKE_ENTER("cuDeviceGet");
  *device = index;
  return CUDA_SUCCESS;
}

CUresult device_get_count(int* count) {
  REPRISE_FAKE_ENTER("cuDeviceGetCount");
  *count = fake->num_gpus;
  return CUDA_SUCCESS;
}

CUresult device_get_name(char* name, int length, CUdevice) {
  REPRISE_FAKE_ENTER("cuDeviceGetName");
  std::strncpy(name, "Fake GPU", static_cast<size_t>(length) - 1);
  return CUDA_SUCCESS;
}

CUresult device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  REPRISE_FAKE_ENTER("cuDeviceGetAttribute");
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 4;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = fake->block_shared_bytes;
      break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      *value = fake->has_virtual_memory ? 1 : 0;
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      *value = 16 + device;
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 0;
      break;
    default:
      *value = 9;
  }
  return CUDA_SUCCESS;
}

CUresult device_total_mem(size_t* bytes, CUdevice) {
  REPRISE_FAKE_ENTER("cuDeviceTotalMem");
  *bytes = fake->total_bytes;
  return CUDA_SUCCESS;
}

CUresult device_primary_ctx_retain(CUcontext* context, CUdevice device) {
  REPRISE_FAKE_ENTER("cuDevicePrimaryCtxRetain");
  ++fake->contexts;
  *context = reinterpret_cast<CUcontext>(&fake->context_of_gpu.at(static_cast<size_t>(device)));
  return CUDA_SUCCESS;
}

CUresult ctx_set_current(CUcontext context) {
  const Lock lock(fake->mutex);
  ++fake->calls_by_name["cuCtxSetCurrent"];
  // No numbered call: chance decides which thread calls first.
  if (fake->is_lost) return fake->error;
  fake->current[std::this_thread::get_id()] = context;
  return CUDA_SUCCESS;
}

}  // namespace reprise::device::cuda::fake_driver
