#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "reprise/device/cuda/cuda_device_impl.h"
#include "reprise/device/cuda/cuda_stream.h"
#include "reprise/kernels/cuda/nccl_api.h"
#include "reprise/kernels/device_ranks.h"
#include "reprise/parallel/communicator.h"

namespace reprise::kernels::cuda {

/// A group of ranks that exchange tensors by NCCL. The Communicator of the same ranks brings NCCL's
/// id to all of them, and names the rank that is missing.
///
/// NCCL only moves bytes: the project's own kernels add, in the order of the ranks, so the bits are
/// those of the CPU's exchanges.
class NcclRanks final : public DeviceRanks {
 public:
  /// How long the ranks may take to connect. All of them begin at the same time.
  static constexpr std::chrono::seconds kConnectTimeout{120};

  /// Connects the ranks and exchanges once in each way, so that no capture is the first use. All
  /// ranks of the group call this at the same time. `version`: of NCCL; `device` and `ranks` must
  /// outlive this object. \throws parallel::RankError that names the rank, DeviceError
  NcclRanks(const NcclApi& api,
            int version,
            device::cuda::CudaDevice& device,
            parallel::Communicator& ranks,
            std::chrono::milliseconds timeout = kConnectTimeout);
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;
  /// \pre no graph with exchanges of these ranks exists: NCCL would wait for its end for ever
  ~NcclRanks() override;

  [[nodiscard]] int size() const noexcept override { return ranks_->size(); }
  void all_gather(device::Stream& stream, const void* mine, void* all, size_t bytes) override;
  void all_to_all(device::Stream& stream, const void* mine, void* all, size_t bytes) override;
  [[nodiscard]] std::string find_failure() noexcept override;
  void abort() noexcept override;

 private:
  struct Connecting;

  void require_equal_versions(int version) const;
  [[nodiscard]] NcclUniqueId share_id() const;
  void connect(const NcclUniqueId& id, std::chrono::milliseconds timeout);
  void warm_up();
  /// Submits calls of NCCL to a stream, unless the ranks were aborted. `submit(CUstream)` returns
  /// NCCL's result.
  template <typename Submit>
  void launch(device::Stream& stream,
              const char* name,
              const device::BufferUse& mine,
              const device::BufferUse& all,
              const Submit& submit);
  [[nodiscard]] NcclResult exchange_parts(const std::byte* from,
                                          std::byte* to,
                                          size_t bytes,
                                          CUstream stream) const;
  [[nodiscard]] std::string describe(NcclResult result) const;

  NcclApi api_;
  device::cuda::CudaDevice* device_;
  parallel::Communicator* ranks_;
  NcclComm* comm_ = nullptr;
  // Held while NCCL is called, so that no call uses a communicator that was aborted.
  std::timed_mutex mutex_;
  std::atomic<bool> is_over_ = false;
  std::string failure_;  // of a call, for find_failure(); guarded by the mutex
};

}  // namespace reprise::kernels::cuda
