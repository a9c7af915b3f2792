#include <memory>

#include "conformance_kernels.h"
#include "device_conformance.h"
#include "reprise/device/cuda/cuda_device.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"

// The CUDA device over the fake driver, and over a real driver if there is one.
namespace reprise::device::conformance {
namespace {

template <typename Args>
cuda::FakeKernel on_host(const Kernel& kernel) {
  return {.parameter_bytes = sizeof(Args), .run = [&kernel](const cuda::FakeLaunch& launch) {
            kernel.cpu(launch.parameter, {0, launch.num_blocks});
          }};
}

std::unique_ptr<Device> over_fake_driver() {
  // The driver lives until the next case creates one, so it outlives its device.
  static std::unique_ptr<cuda::FakeDriver> driver;
  driver.reset();
  driver = std::make_unique<cuda::FakeDriver>();
  driver->add_kernel(kAdd.cuda.function, on_host<AddArgs>(kAdd));
  driver->add_kernel(kMix.cuda.function, on_host<MixArgs>(kMix));
  return cuda::create_cuda_device(driver->api());
}

}  // namespace

std::vector<DeviceUnderTest> devices_under_test() {
  std::vector<DeviceUnderTest> devices{
      {.name = "cuda_over_fake_driver", .create = over_fake_driver, .exclusions = {}}};
  if (const cuda::LoadedDriver driver = cuda::load_driver(); driver.reason.empty()) {
    devices.push_back({.name = "cuda",
                       .create = [driver] { return cuda::create_cuda_device(driver.api); },
                       .exclusions = {}});
  }
  return devices;
}

}  // namespace reprise::device::conformance
