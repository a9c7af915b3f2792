#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/device/caching_pool.h"
#include "reprise/device/cuda/cuda_device.h"
#include "reprise/device/cuda/cuda_device_impl.h"
#include "reprise/kernels/cuda/cuda_executor.h"
#include "tests/support/fake_cuda/fake_cublas_lt_fixture.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"
#include "tests/support/fake_cuda/flashinfer_on_host_fixture.h"
#include "tests/support/fake_cuda/host_image_fixture.h"
#include "tests/support/fake_cuda/host_kernels_fixture.h"

/// For tests: the CUDA device over a fake driver whose kernels are the real ones' source on the
/// host, or over a GPU.
namespace reprise::kernels::cuda {

inline void add_host_kernels(device::cuda::FakeDriver& driver) {
  for (const auto* kernels : {&host_kernels(), &flashinfer_host_kernels()}) {
    for (const auto& [name, kernel] : *kernels) {
      driver.add_kernel(name,
                        {.parameter_bytes = kernel.argument_bytes,
                         .run = [run = kernel.run](const device::cuda::FakeLaunch& launch) {
                           run(launch.parameter, launch.num_blocks, 0, launch.num_blocks);
                         }});
    }
  }
}

/// Memory of the host that a GPU reaches at the same addresses.
class PageLockedMemory final : public device::MemorySource {
 public:
  explicit PageLockedMemory(const device::cuda::Driver& driver) : driver_(&driver) {}
  [[nodiscard]] device::BufferView acquire(size_t bytes) override {
    void* data = nullptr;
    driver_->check(driver_->bound().mem_host_alloc(&data, bytes, 0), "cuMemHostAlloc");
    return {data, bytes};
  }
  void give_back(device::BufferView memory) noexcept override {
    (void)driver_->bound_noexcept().mem_free_host(memory.data);
  }

 private:
  const device::cuda::Driver* driver_;  // the device's
};

/// real_if_there: a GPU, if this machine has a driver.
enum class MachineKind : uint8_t { fake, real_if_there };

class CudaMachine {
 public:
  explicit CudaMachine(MachineKind kind = MachineKind::fake) {
    if (kind == MachineKind::real_if_there) {
      const device::cuda::LoadedDriver loaded = device::cuda::load_driver();
      if (loaded.reason.empty()) device_ = device::cuda::create_cuda_device(loaded.api);
    }
    if (device_ != nullptr) return;
    driver_ = std::make_unique<device::cuda::FakeDriver>();
    cublas_lt_ = std::make_unique<FakeCublasLt>(*driver_);
    add_host_kernels(*driver_);
    driver_->read_images(read_host_image);
    device_ = device::cuda::create_cuda_device(driver_->api());
  }

  [[nodiscard]] bool is_real() const noexcept { return driver_ == nullptr; }
  /// \pre !is_real()
  [[nodiscard]] device::cuda::FakeDriver& driver() noexcept { return *driver_; }
  [[nodiscard]] FakeCublasLt& cublas_lt() noexcept { return *cublas_lt_; }
  /// The fake's functions, or those of the library beside a real GPU; nullptr: there is none.
  [[nodiscard]] const CublasLtApi* cublas_lt_api() {
    if (!is_real()) return &cublas_lt_->api();
    if (!loaded_) loaded_ = load_cublas_lt();
    return loaded_->reason.empty() ? &loaded_->api : nullptr;
  }
  [[nodiscard]] device::Device& device() noexcept { return *device_; }

  /// A pool whose memory the host reads and writes while no work runs.
  [[nodiscard]] std::unique_ptr<device::MemoryPool> create_host_pool() {
    if (!is_real()) return device_->create_pool();
    if (page_locked_ == nullptr) {
      page_locked_ = std::make_unique<PageLockedMemory>(
          dynamic_cast<device::cuda::CudaDevice&>(*device_).driver());
    }
    return std::make_unique<device::CachingPool>(*page_locked_);
  }

 private:
  std::unique_ptr<device::cuda::FakeDriver> driver_;
  std::unique_ptr<FakeCublasLt> cublas_lt_;
  std::optional<LoadedCublasLt> loaded_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<PageLockedMemory> page_locked_;
};

}  // namespace reprise::kernels::cuda
