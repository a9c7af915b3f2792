#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/kernels/cuda/nccl_ranks.h"
#include "tests/support/fake_cuda/cuda_machine_fixture.h"
#include "tests/support/fake_cuda/fake_nccl_fixture.h"
#include "tests/support/parallel/local_transport.h"

/// For tests: ranks that are threads of one process, each with a GPU: fakes that exchange data by a
/// fake NCCL, or the GPUs of the machine.
namespace reprise::kernels::cuda {

inline parallel::CommunicatorOptions options_of_gpu_rank(int rank) {
  return {.timeout = std::chrono::seconds(60),
          .beat_interval = std::chrono::milliseconds(100),
          .silence = std::chrono::seconds(10),
          .local_rank = rank};
}

/// The GPUs of this machine that a test may use; as many as it likes if they are fakes.
inline int num_gpus_for_ranks() {
  const device::cuda::LoadedDriver driver = device::cuda::load_driver();
  if (!driver.reason.empty()) return parallel::Communicator::kMaxRanks;
  int count = 0;
  const bool is_known =
      driver.api.init(0) == CUDA_SUCCESS && driver.api.device_get_count(&count) == CUDA_SUCCESS;
  return is_known ? count : 0;
}

/// \pre there are so many GPUs, if `kind` is real_if_there
class GpuRanksMachine {
 public:
  explicit GpuRanksMachine(int num_gpus, MachineKind kind = MachineKind::fake) {
    if (kind == MachineKind::real_if_there) real_ = device::cuda::load_driver();
    if (is_real()) {
      real_nccl_ = load_nccl();
      real_cublas_lt_ = load_cublas_lt();
      return;
    }
    driver_ = std::make_unique<device::cuda::FakeDriver>();
    cublas_lt_ = std::make_unique<FakeCublasLt>(*driver_);
    nccl_ = std::make_unique<FakeNccl>(*driver_);
    driver_->set_num_gpus(num_gpus);
    driver_->read_images(read_host_image);
    add_host_kernels(*driver_);
  }

  [[nodiscard]] bool is_real() const noexcept { return real_.reason.empty(); }
  /// \pre !is_real()
  [[nodiscard]] device::cuda::FakeDriver& driver() noexcept { return *driver_; }
  [[nodiscard]] FakeNccl& nccl() noexcept { return *nccl_; }

  [[nodiscard]] std::unique_ptr<device::Device> create_device(int gpu) {
    return device::cuda::create_cuda_device(is_real() ? real_.api : driver_->api(),
                                            {.device_index = gpu});
  }
  [[nodiscard]] std::unique_ptr<NcclRanks> join(device::Device& device,
                                                parallel::Communicator& ranks) {
    return std::make_unique<NcclRanks>(is_real() ? real_nccl_.api : nccl_->api(),
                                       is_real() ? real_nccl_.version : FakeNccl::kVersion,
                                       dynamic_cast<device::cuda::CudaDevice&>(device),
                                       ranks);
  }
  [[nodiscard]] std::unique_ptr<CudaExecutor> create_executor(device::Stream& stream,
                                                              device::MemoryPool& pool,
                                                              std::vector<DeviceRanks*> ranks) {
    const auto& device = dynamic_cast<device::cuda::CudaDevice&>(stream.device());
    const bool has_library = !is_real() || real_cublas_lt_.reason.empty();
    return std::make_unique<CudaExecutor>(
        stream,
        pool,
        CudaExecutorOptions{.num_multiprocessors =
                                device.driver().attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
                            .cublas_lt = !has_library ? nullptr
                                         : is_real()  ? &real_cublas_lt_.api
                                                      : &cublas_lt_->api(),
                            .ranks = std::move(ranks)});
  }
  /// What no program may do; a real GPU does not tell.
  [[nodiscard]] std::vector<std::string> misuses() const {
    if (is_real()) return {};
    std::vector<std::string> found = driver_->misuses();
    if (nccl_->num_communicators() > 0) found.emplace_back("communicators are left");
    return found;
  }

 private:
  device::cuda::LoadedDriver real_{.api = {}, .reason = "not asked for"};
  LoadedNccl real_nccl_;
  LoadedCublasLt real_cublas_lt_;
  std::unique_ptr<device::cuda::FakeDriver> driver_;
  std::unique_ptr<FakeCublasLt> cublas_lt_;
  std::unique_ptr<FakeNccl> nccl_;
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
        group_(machine.join(*device_, ranks_)),
        stream_(device_->create_stream()),
        pool_(device_->create_pool()),
        executor_(machine.create_executor(*stream_, *pool_, {group_.get()})) {}
  GpuRank(GpuRanksMachine& machine, int rank, const std::shared_ptr<parallel::LocalHub>& hub)
      : GpuRank(machine, rank, hub, options_of_gpu_rank(rank)) {}

  [[nodiscard]] parallel::Communicator& ranks() noexcept { return ranks_; }
  [[nodiscard]] device::Device& device() noexcept { return *device_; }
  [[nodiscard]] NcclRanks& group() noexcept { return *group_; }
  [[nodiscard]] device::Stream& stream() noexcept { return *stream_; }
  [[nodiscard]] CudaExecutor& executor() noexcept { return *executor_; }

 private:
  parallel::Communicator ranks_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<NcclRanks> group_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::MemoryPool> pool_;
  std::unique_ptr<CudaExecutor> executor_;
};

}  // namespace reprise::kernels::cuda
