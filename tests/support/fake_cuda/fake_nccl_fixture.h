#pragma once

#include <cstdint>
#include <memory>

#include "reprise/kernels/cuda/nccl_api.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"

namespace reprise::kernels::cuda {

/// A fake NCCL for tests, on a fake driver's streams. Ranks are threads of one process or several
/// processes: their bytes pass through a file that all of them map. It really moves data, and waits
/// for the other ranks as NCCL's kernels do, until it is aborted.
///
/// It refuses what NCCL refuses, or what would hang or go wrong there, and calls it a misuse of the
/// driver: communicators that are destroyed or aborted, memory that is not the GPU's, another GPU
/// than the communicator's, two ranks on one GPU, exchanges that differ between the ranks,
/// connections that would be made in a capture, and communicators that are destroyed before the
/// graphs that use them. A group of sends and receives must have one of each for each rank, of
/// equal sizes, because this project uses no other.
///
/// Calls are numbered together with the driver's calls, so FakeDriver::fail_call() fails them too,
/// except those that come from other threads at any time. The library's functions have no object
/// parameter, so at most one FakeNccl may exist at a time. It must outlive its graphs.
///
/// Source of the rules: documentation of NCCL 2.32, "Using NCCL with CUDA Graphs", "Error handling
/// and communicator abort", "Group Calls"; NVIDIA's CUDA graph guide, "Process Hang".
class FakeNccl {
 public:
  static constexpr int kVersion = 22809;
  /// The memory of the GPU that a communicator takes.
  static constexpr size_t kCommunicatorBytes = size_t{48} << 20;

  explicit FakeNccl(device::cuda::FakeDriver& driver);
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;
  ~FakeNccl();

  [[nodiscard]] const NcclApi& api() const noexcept;
  /// From now on every communicator reports this error that it noticed by itself.
  void fail_later(NcclResult error) noexcept;
  /// The exchanges that were submitted or recorded, by all ranks of this process.
  [[nodiscard]] uint64_t num_exchanges() const noexcept;
  /// Communicators that were neither destroyed nor aborted.
  [[nodiscard]] size_t num_communicators() const noexcept;
  [[nodiscard]] uint64_t num_aborts() const noexcept;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace reprise::kernels::cuda
