#include "reprise/kernels/cuda/code_target.h"

#include <fmt/format.h>

#include "reprise/device/cuda/cuda_device_impl.h"
#include "reprise/device/cuda/generated_code.h"
#include "reprise/kernels/row_group/row_group_arguments.h"

namespace reprise::kernels::cuda {

CodeTarget create_code_target(device::Device& device) {
  const device::cuda::Driver& driver = dynamic_cast<device::cuda::CudaDevice&>(device).driver();
  return {
      .architecture = fmt::format("sm_{}{}",
                                  driver.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                                  driver.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)),
      .loader = device::cuda::create_cubin_loader(device, kRowGroupThreads)};
}

}  // namespace reprise::kernels::cuda
