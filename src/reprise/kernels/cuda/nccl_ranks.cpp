#include "reprise/kernels/cuda/nccl_ranks.h"

#include <fmt/format.h>

#include <array>
#include <future>
#include <thread>
#include <utility>

#include "reprise/device/error.h"

namespace reprise::kernels::cuda {
namespace {

// While another thread is in a call of NCCL that does not return, the ranks are aborted without it.
constexpr std::chrono::milliseconds kAbortPatience{1'000};

// Bytes of a rank. NCCL makes connections and buffers at the first use of a protocol, and chooses
// the protocol by size; from the smallest to the largest of these it should use each of them.
constexpr std::array<size_t, 4> kWarmUpBytes = {1 << 10, 1 << 15, 1 << 19, 1 << 22};

}  // namespace

// What the thread that connects and the thread that waits for it share. The thread may be left
// behind: NCCL has no way to end the call.
struct NcclRanks::Connecting {
  std::promise<std::pair<NcclResult, std::string>> done;
  NcclComm* comm = nullptr;
};

NcclRanks::NcclRanks(const NcclApi& api,
                     int version,
                     device::cuda::CudaDevice& device,
                     parallel::Communicator& ranks,
                     std::chrono::milliseconds timeout)
    : api_(api), device_(&device), ranks_(&ranks) {
  require_equal_versions(version);
  connect(share_id(), timeout);
  ranks_->link().add(*this);
  try {
    warm_up();
  } catch (...) {
    abort();
    ranks_->link().remove(*this);
    throw;
  }
}

NcclRanks::~NcclRanks() {
  ranks_->link().remove(*this);
  if (is_over_.exchange(true)) return;
  (void)device_->driver().bound_noexcept();
  (void)api_.comm_destroy(comm_);
}

void NcclRanks::require_equal_versions(int version) const {
  std::array<int, parallel::Communicator::kMaxRanks> all{};
  ranks_->all_gather(parallel::Operation::start_up,
                     &version,
                     all.data(),
                     sizeof version,
                     parallel::Patience::unlimited);
  for (int rank = 1; rank < size(); ++rank) {
    const int theirs = all.at(static_cast<size_t>(rank));
    if (theirs == all[0]) continue;
    throw parallel::RankError(
        fmt::format("rank {} has NCCL {} and rank {} has NCCL {}: all ranks need the same version",
                    ranks_->world_rank(rank),
                    nccl_version_text(theirs),
                    ranks_->world_rank(0),
                    nccl_version_text(all[0])));
  }
}

NcclUniqueId NcclRanks::share_id() const {
  NcclUniqueId id{};
  // Another rank must learn of a failure here, or it would wait for the id until this one is lost.
  int result = 0;
  if (ranks_->rank() == 0) result = static_cast<int>(api_.get_unique_id(&id));
  ranks_->broadcast(parallel::Operation::start_up, 0, &result, sizeof result);
  if (result != 0) {
    throw device::DeviceError(fmt::format("{}: ncclGetUniqueId on rank {}: {}",
                                          device_->name(),
                                          ranks_->world_rank(0),
                                          describe(NcclResult{result})));
  }
  ranks_->broadcast(parallel::Operation::start_up, 0, id.bytes.data(), id.bytes.size());
  return id;
}

void NcclRanks::connect(const NcclUniqueId& id, std::chrono::milliseconds timeout) {
  const auto connecting = std::make_shared<Connecting>();
  auto done = connecting->done.get_future();
  std::thread([connecting,
               id,
               api = api_,
               &driver = device_->driver(),
               size = size(),
               rank = ranks_->rank()] {
    try {
      (void)driver.bound();  // NCCL uses the GPU of the calling thread's context
    } catch (const std::exception& error) {
      return connecting->done.set_value({NcclResult::unhandled_cuda_error, error.what()});
    }
    const NcclResult result = api.comm_init_rank(&connecting->comm, size, id, rank);
    std::string text;
    if (result != NcclResult::success) text = api.get_last_error(nullptr);
    connecting->done.set_value({result, std::move(text)});
  }).detach();
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (done.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
    ranks_->check();
    if (std::chrono::steady_clock::now() < end) continue;
    throw parallel::RankError(fmt::format(
        "rank {} could not connect to the other ranks by NCCL within {} s; NCCL_DEBUG=INFO shows "
        "what it tries, and NCCL_SOCKET_IFNAME names the network that it may use",
        ranks_->world_rank(ranks_->rank()),
        std::chrono::duration_cast<std::chrono::seconds>(timeout).count()));
  }
  const auto [result, text] = done.get();
  if (result != NcclResult::success) {
    throw device::DeviceError(fmt::format("{}: ncclCommInitRank of rank {}: {}{}{}",
                                          device_->name(),
                                          ranks_->world_rank(ranks_->rank()),
                                          api_.get_error_string(result),
                                          text.empty() ? "" : ": ",
                                          text));
  }
  comm_ = connecting->comm;
}

void NcclRanks::warm_up() {
  const auto stream = device_->create_stream();
  const auto num_ranks = static_cast<size_t>(size());
  const device::Buffer mine = device_->allocate(kWarmUpBytes.back());
  const device::Buffer all = device_->allocate(kWarmUpBytes.back() * num_ranks);
  for (const size_t bytes : kWarmUpBytes) {
    all_gather(*stream, mine.data(), all.data(), bytes);
    all_to_all(*stream, mine.data(), all.data(), bytes / num_ranks);
  }
  stream->synchronize();
  ranks_->check();
}

template <typename Submit>
void NcclRanks::launch(device::Stream& stream,
                       const char* name,
                       const device::BufferUse& mine,
                       const device::BufferUse& all,
                       const Submit& submit) {
  const std::lock_guard lock(mutex_);
  if (is_over_) return;
  auto& cuda_stream = dynamic_cast<device::cuda::CudaStream&>(stream);
  cuda_stream.launch_library(name, std::array{mine, all}, [&](CUstream handle) -> const char* {
    const NcclResult result = submit(handle);
    if (result == NcclResult::success) return nullptr;
    failure_ =
        fmt::format("rank {}: {}: {}", ranks_->world_rank(ranks_->rank()), name, describe(result));
    return failure_.c_str();
  });
}

void NcclRanks::all_gather(device::Stream& stream, const void* mine, void* all, size_t bytes) {
  launch(stream,
         "ncclAllGather",
         {mine, bytes, device::BufferUse::Access::read},
         {all, bytes * static_cast<size_t>(size()), device::BufferUse::Access::write},
         [&](CUstream handle) {
           return api_.all_gather(mine, all, bytes, NcclType::int8, comm_, handle);
         });
}

void NcclRanks::all_to_all(device::Stream& stream, const void* mine, void* all, size_t bytes) {
  const size_t all_bytes = bytes * static_cast<size_t>(size());
  launch(stream,
         "ncclSend and ncclRecv",
         {mine, all_bytes, device::BufferUse::Access::read},
         {all, all_bytes, device::BufferUse::Access::write},
         [&](CUstream handle) {
           return exchange_parts(
               static_cast<const std::byte*>(mine), static_cast<std::byte*>(all), bytes, handle);
         });
}

NcclResult NcclRanks::exchange_parts(const std::byte* from,
                                     std::byte* to,
                                     size_t bytes,
                                     CUstream stream) const {
  NcclResult result = api_.group_start();
  if (result != NcclResult::success) return result;
  for (int peer = 0; peer < size() && result == NcclResult::success; ++peer) {
    const size_t part = static_cast<size_t>(peer) * bytes;
    result = api_.send(from + part, bytes, NcclType::int8, peer, comm_, stream);
    if (result != NcclResult::success) break;
    result = api_.recv(to + part, bytes, NcclType::int8, peer, comm_, stream);
  }
  // A group that was begun must be ended, or the thread's later calls would be part of it.
  const NcclResult end = api_.group_end();
  return result != NcclResult::success ? result : end;
}

std::string NcclRanks::describe(NcclResult result) const {
  const char* details = api_.get_last_error(comm_);
  return fmt::format("{}{}{}",
                     api_.get_error_string(result),
                     details != nullptr && *details != 0 ? ": " : "",
                     details != nullptr ? details : "");
}

std::string NcclRanks::find_failure() noexcept {
  try {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || is_over_) return {};
    if (!failure_.empty()) return failure_;
    NcclResult error = NcclResult::success;
    const NcclResult result = api_.comm_get_async_error(comm_, &error);
    if (result != NcclResult::success) error = result;
    if (error == NcclResult::success || error == NcclResult::in_progress) return {};
    return fmt::format("rank {} noticed an error of NCCL: {}",
                       ranks_->world_rank(ranks_->rank()),
                       describe(error));
  } catch (const std::exception& error) {
    return error.what();
  }
}

void NcclRanks::abort() noexcept {
  try {
    std::unique_lock lock(mutex_, std::defer_lock);
    (void)lock.try_lock_for(kAbortPatience);
    if (!is_over_.exchange(true)) (void)api_.comm_abort(comm_);
    // NOLINTNEXTLINE(bugprone-empty-catch): the process ends
  } catch (const std::exception&) {
  }
}

}  // namespace reprise::kernels::cuda
