#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reprise/device/cuda/cuda_device.h"
#include "reprise/kernels/cuda/cuda_executor.h"
#include "tests/support/fake_cuda/fake_cublas_lt_fixture.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"
#include "tests/support/fake_cuda/host_image_fixture.h"
#include "tests/support/fake_cuda/host_kernels_fixture.h"

/// For tests: the CUDA device over a fake driver. The fake driver runs the source of the real
/// kernels on the host.
namespace reprise::kernels::cuda {

inline void add_host_kernels(device::cuda::FakeDriver& driver) {
  for (const auto& [name, kernel] : host_kernels()) {
    driver.add_kernel(name,
                      {.parameter_bytes = kernel.argument_bytes,
                       .run = [run = kernel.run](const device::cuda::FakeLaunch& launch) {
                         run(launch.parameter, launch.num_blocks, 0, launch.num_blocks);
                       }});
  }
}

class CudaMachine {
 public:
  CudaMachine() {
    add_host_kernels(driver_);
    driver_.read_images(read_host_image);
    device_ = device::cuda::create_cuda_device(driver_.api());
  }

  [[nodiscard]] device::cuda::FakeDriver& driver() noexcept { return driver_; }
  [[nodiscard]] FakeCublasLt& cublas_lt() noexcept { return cublas_lt_; }
  [[nodiscard]] device::Device& device() noexcept { return *device_; }

 private:
  device::cuda::FakeDriver driver_;
  FakeCublasLt cublas_lt_{driver_};
  std::unique_ptr<device::Device> device_;
};

}  // namespace reprise::kernels::cuda
