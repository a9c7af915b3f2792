#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "reprise/kernels/cuda/nccl_ranks.h"
#include "tests/support/fake_cuda/cuda_machine_fixture.h"
#include "tests/support/fake_cuda/fake_nccl_fixture.h"
#include "tests/support/parallel/local_transport.h"

/// For tests: ranks that are threads of one process, each with a GPU of a fake driver, which
/// exchange data by a fake NCCL.
namespace reprise::kernels::cuda {

inline parallel::CommunicatorOptions options_of_gpu_rank(int rank) {
  return {.timeout = std::chrono::seconds(60),
          .beat_interval = std::chrono::milliseconds(100),
          .silence = std::chrono::seconds(10),
          .local_rank = rank};
}

class GpuRanksMachine {
 public:
  explicit GpuRanksMachine(int num_gpus) {
    driver_.set_num_gpus(num_gpus);
    driver_.read_images(read_host_image);
    add_host_kernels(driver_);
  }

  [[nodiscard]] device::cuda::FakeDriver& driver() noexcept { return driver_; }
  [[nodiscard]] FakeCublasLt& cublas_lt() noexcept { return cublas_lt_; }
  [[nodiscard]] FakeNccl& nccl() noexcept { return nccl_; }
  [[nodiscard]] std::unique_ptr<device::Device> create_device(int gpu) {
    return device::cuda::create_cuda_device(driver_.api(), {.device_index = gpu});
  }

 private:
  device::cuda::FakeDriver driver_;
  FakeCublasLt cublas_lt_{driver_};
  FakeNccl nccl_{driver_};
};

/// One rank, in its thread. Members go in the reverse order, so graphs must go before this object.
class GpuRank {
 public:
  GpuRank(GpuRanksMachine& machine,
          int rank,
          const std::shared_ptr<parallel::LocalHub>& hub,
          const parallel::CommunicatorOptions& options)
      : ranks_(std::make_unique<parallel::LocalTransport>(hub, rank), options),
        device_(machine.create_device(rank)),
        group_(machine.nccl().api(),
               FakeNccl::kVersion,
               dynamic_cast<device::cuda::CudaDevice&>(*device_),
               ranks_),
        stream_(device_->create_stream()),
        pool_(device_->create_pool()),
        executor_(*stream_, *pool_, {.num_multiprocessors = 4, .ranks = {&group_}}) {}
  GpuRank(GpuRanksMachine& machine, int rank, const std::shared_ptr<parallel::LocalHub>& hub)
      : GpuRank(machine, rank, hub, options_of_gpu_rank(rank)) {}

  [[nodiscard]] parallel::Communicator& ranks() noexcept { return ranks_; }
  [[nodiscard]] device::Device& device() noexcept { return *device_; }
  [[nodiscard]] NcclRanks& group() noexcept { return group_; }
  [[nodiscard]] device::Stream& stream() noexcept { return *stream_; }
  [[nodiscard]] CudaExecutor& executor() noexcept { return executor_; }

 private:
  parallel::Communicator ranks_;
  std::unique_ptr<device::Device> device_;
  NcclRanks group_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::MemoryPool> pool_;
  CudaExecutor executor_;
};

}  // namespace reprise::kernels::cuda
