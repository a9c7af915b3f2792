#include "tests/support/fake_cuda/fake_nccl_fixture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::kernels::cuda {
// Other fakes have names like these in one unit of compilation.
namespace fake_nccl {
namespace {

constexpr int kMostRanks = 16;
// The most that a rank gives to an exchange. Memory is taken only for what it really gives.
constexpr size_t kMostBytes = size_t{8} << 20;

enum class Kind : uint64_t { all_gather = 1, all_to_all = 2 };

/// The data of one rank for one exchange. A rank that has begun exchange n has finished n - 1, and
/// to finish it had to wait until all others had begun n - 1, so two slots are enough.
struct Slot {
  Kind kind;
  uint64_t bytes;  // of one part
  std::array<std::byte, kMostBytes> data;
};

struct SharedRank {
  std::atomic<int> gpu;  // plus 1; 0: the rank has not come
  std::atomic<uint64_t> num_begun;
  std::array<Slot, 2> slots;
};

/// The content of the file.
struct SharedGroup {
  std::atomic<int> num_ranks;
  std::array<SharedRank, kMostRanks> ranks;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

struct Unmap {
  void operator()(SharedGroup* group) const noexcept { munmap(group, sizeof(SharedGroup)); }
};
using Mapped = std::unique_ptr<SharedGroup, Unmap>;

Mapped map_group(const char* path) {
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* data = mmap(nullptr, sizeof(SharedGroup), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return Mapped(data == MAP_FAILED ? nullptr : static_cast<SharedGroup*>(data));
}

/// One rank of a group. Its graphs and its queued work share it.
struct Comm {
  Mapped group;
  int rank = 0;
  int size = 0;
  int gpu = 0;
  uint64_t num_begun = 0;
  bool has_gathered = false;  // the connections for these exchanges exist
  bool has_sent = false;
  std::atomic<bool> is_aborted = false;

  [[nodiscard]] SharedRank& shared(int of) const {
    return group->ranks.at(static_cast<size_t>(of));
  }
  [[nodiscard]] Slot& slot(int of, uint64_t number) const {
    return shared(of).slots.at(number % 2);
  }
};

struct Transfer {
  bool is_send = false;
  NcclComm* comm = nullptr;
  int peer = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;
  CUstream stream = nullptr;
};

/// The addresses of the parts for and from each rank. All are of equal size.
struct Exchange {
  Kind kind = Kind::all_gather;
  size_t bytes = 0;
  std::vector<const std::byte*> from;  // one, or one for each rank
  std::vector<std::byte*> to;          // one for each rank
};

thread_local int group_depth = 0;
thread_local std::vector<Transfer> group_calls;
// The first error of a call in the group, which its end returns.
thread_local NcclResult group_error = NcclResult::success;

}  // namespace
}  // namespace fake_nccl

struct FakeNccl::State {
  using Comm = fake_nccl::Comm;
  using Exchange = fake_nccl::Exchange;
  using Transfer = fake_nccl::Transfer;

  explicit State(device::cuda::FakeDriver& fake_driver) : driver(&fake_driver) {}

  /// The communicator, if it is alive; otherwise a misuse.
  std::shared_ptr<Comm> find(NcclComm* handle, const char* call);
  NcclResult refuse(const char* call, const std::string& why, NcclResult result);
  /// Numbers a call. Whether it must fail.
  bool must_fail(const char* call) { return driver->enter(call) != CUDA_SUCCESS; }
  NcclResult check_call(const Comm& comm, const char* call, bool is_connected);
  NcclResult submit(const std::shared_ptr<Comm>& comm, const Exchange& exchange, CUstream stream);
  NcclResult submit_group();
  NcclResult add(const char* call, Transfer transfer, NcclType type);
  void finish(Comm& comm, const Exchange& exchange, uint64_t number);
  /// \pre the mutex is held
  void count_memory() const {
    driver->set_library_memory(comms.size() * FakeNccl::kCommunicatorBytes);
  }

  device::cuda::FakeDriver* driver;
  NcclApi api;
  std::mutex mutex;  // of the communicators
  std::map<NcclComm*, std::shared_ptr<Comm>> comms;
  std::atomic<bool> is_over = false;
  std::atomic<uint64_t> num_exchanges = 0;
  std::atomic<uint64_t> num_aborts = 0;
  std::atomic<NcclResult> later_error = NcclResult::success;
};

namespace fake_nccl {
namespace {

FakeNccl::State* fake = nullptr;

void copy_text(std::span<char> to, const std::string& text) {
  std::memcpy(to.data(), text.c_str(), std::min(to.size(), text.size() + 1));
}

NcclResult get_version(int* version) {
  *version = FakeNccl::kVersion;
  return NcclResult::success;
}

NcclResult get_unique_id(NcclUniqueId* id) {
  if (fake->must_fail("ncclGetUniqueId")) return NcclResult::system_error;
  std::string path = "/tmp/reprise-fake-nccl-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0 || ftruncate(file, sizeof(SharedGroup)) != 0) return NcclResult::system_error;
  close(file);
  *id = {};
  copy_text(id->bytes, path);
  return NcclResult::success;
}

/// Waits until all ranks have come. nullptr: one of them has this rank's GPU, or the test is over.
bool meet(Comm& comm) {
  const auto has_come = [&](int rank) { return comm.shared(rank).gpu > 0; };
  for (int rank = 0; rank < comm.size; ++rank) {
    while (!has_come(rank)) {
      if (fake == nullptr || fake->is_over) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  return true;
}

NcclResult comm_init_rank(NcclComm** handle, int num_ranks, NcclUniqueId id, int rank) {
  constexpr const char* kCall = "ncclCommInitRank";
  if (fake->must_fail(kCall)) return NcclResult::unhandled_cuda_error;
  if (fake->driver->is_capturing()) {
    return fake->refuse(kCall, "in a capture", NcclResult::invalid_usage);
  }
  if (num_ranks < 1 || num_ranks > kMostRanks || rank < 0 || rank >= num_ranks) {
    return NcclResult::invalid_argument;
  }
  const auto comm = std::make_shared<Comm>();
  comm->group = map_group(id.bytes.data());
  if (comm->group == nullptr) return NcclResult::system_error;
  comm->rank = rank;
  comm->size = num_ranks;
  comm->gpu = fake->driver->gpu_of_thread();
  int free_place = 0;
  if (!comm->shared(rank).gpu.compare_exchange_strong(free_place, comm->gpu + 1)) {
    return fake->refuse(kCall, "twice for one rank", NcclResult::invalid_argument);
  }
  if (!meet(*comm)) return NcclResult::system_error;
  if (++comm->group->num_ranks == num_ranks) unlink(id.bytes.data());
  for (int peer = 0; peer < num_ranks; ++peer) {
    // "Duplicate GPU detected".
    if (peer != rank && comm->shared(peer).gpu == comm->gpu + 1) return NcclResult::invalid_usage;
  }
  const std::lock_guard lock(fake->mutex);
  *handle = reinterpret_cast<NcclComm*>(comm.get());
  fake->comms[*handle] = comm;
  fake->count_memory();
  return NcclResult::success;
}

NcclResult comm_destroy(NcclComm* handle) {
  const std::shared_ptr<Comm> comm = fake->find(handle, "ncclCommDestroy");
  if (comm == nullptr) return NcclResult::invalid_argument;
  const std::lock_guard lock(fake->mutex);
  fake->comms.erase(handle);
  fake->count_memory();
  if (comm.use_count() > 1) {
    fake->driver->add_misuse("ncclCommDestroy before its graphs: it would wait for ever");
  }
  return NcclResult::success;
}

NcclResult comm_abort(NcclComm* handle) {
  const std::shared_ptr<Comm> comm = fake->find(handle, "ncclCommAbort");
  if (comm == nullptr) return NcclResult::invalid_argument;
  comm->is_aborted = true;
  ++fake->num_aborts;
  const std::lock_guard lock(fake->mutex);
  fake->comms.erase(handle);
  return NcclResult::success;
}

NcclResult comm_get_async_error(NcclComm* handle, NcclResult* error) {
  if (fake->find(handle, "ncclCommGetAsyncError") == nullptr) return NcclResult::invalid_argument;
  *error = fake->later_error;
  return NcclResult::success;
}

const char* get_error_string(NcclResult result) {
  switch (result) {
    case NcclResult::success:
      return "no error";
    case NcclResult::unhandled_cuda_error:
      return "unhandled cuda error";
    case NcclResult::system_error:
      return "unhandled system error";
    case NcclResult::invalid_usage:
      return "invalid usage";
    case NcclResult::remote_error:
      return "remote process exited or there was a network error";
    default:
      return "invalid argument";
  }
}

const char* get_last_error(NcclComm* /*comm*/) { return "as the test asked"; }

NcclResult all_gather(
    const void* from, void* to, size_t count, NcclType type, NcclComm* handle, CUstream stream) {
  constexpr const char* kCall = "ncclAllGather";
  if (fake->must_fail(kCall)) return NcclResult::unhandled_cuda_error;
  const std::shared_ptr<Comm> comm = fake->find(handle, kCall);
  if (comm == nullptr) return NcclResult::invalid_argument;
  const NcclResult checked = fake->check_call(*comm, kCall, comm->has_gathered);
  if (checked != NcclResult::success) return checked;
  const auto size = static_cast<size_t>(comm->size);
  if (type != NcclType::int8 || group_depth > 0 || !fake->driver->owns(from, count) ||
      !fake->driver->owns(to, count * size)) {
    return fake->refuse(kCall, "of memory that is not the GPU's", NcclResult::invalid_argument);
  }
  comm->has_gathered = true;
  Exchange exchange{.kind = Kind::all_gather,
                    .bytes = count,
                    .from = {static_cast<const std::byte*>(from)},
                    .to = {}};
  for (size_t rank = 0; rank < size; ++rank) {
    exchange.to.push_back(static_cast<std::byte*>(to) + rank * count);
  }
  return fake->submit(comm, exchange, stream);
}

NcclResult send(
    const void* from, size_t count, NcclType type, int peer, NcclComm* comm, CUstream stream) {
  return fake->add("ncclSend",
                   {.is_send = true,
                    .comm = comm,
                    .peer = peer,
                    .data = const_cast<std::byte*>(static_cast<const std::byte*>(from)),
                    .bytes = count,
                    .stream = stream},
                   type);
}

NcclResult recv(void* to, size_t count, NcclType type, int peer, NcclComm* comm, CUstream stream) {
  return fake->add("ncclRecv",
                   {.is_send = false,
                    .comm = comm,
                    .peer = peer,
                    .data = static_cast<std::byte*>(to),
                    .bytes = count,
                    .stream = stream},
                   type);
}

NcclResult group_start() {
  ++group_depth;
  return NcclResult::success;
}

NcclResult group_end() {
  if (group_depth == 0) {
    return fake->refuse("ncclGroupEnd", "without a start", NcclResult::invalid_usage);
  }
  if (--group_depth > 0) return NcclResult::success;
  return fake->submit_group();
}

}  // namespace
}  // namespace fake_nccl

std::shared_ptr<fake_nccl::Comm> FakeNccl::State::find(NcclComm* handle, const char* call) {
  {
    const std::lock_guard lock(mutex);
    if (const auto found = comms.find(handle); found != comms.end()) return found->second;
  }
  driver->add_misuse(fmt::format("{} of no communicator", call));
  return nullptr;
}

NcclResult FakeNccl::State::refuse(const char* call, const std::string& why, NcclResult result) {
  driver->add_misuse(fmt::format("{} {}", call, why));
  return result;
}

NcclResult FakeNccl::State::check_call(const Comm& comm, const char* call, bool is_connected) {
  if (driver->gpu_of_thread() != comm.gpu) {
    return refuse(call, "on another GPU than the communicator's", NcclResult::invalid_usage);
  }
  if (!is_connected && driver->is_capturing()) {
    return refuse(call, "connects ranks in a capture", NcclResult::invalid_usage);
  }
  return NcclResult::success;
}

NcclResult FakeNccl::State::add(const char* call, Transfer transfer, NcclType type) {
  if (must_fail(call)) {
    fake_nccl::group_error = NcclResult::unhandled_cuda_error;
    return fake_nccl::group_error;
  }
  const std::shared_ptr<Comm> comm = find(transfer.comm, call);
  if (comm == nullptr) return NcclResult::invalid_argument;
  const NcclResult checked = check_call(*comm, call, comm->has_sent);
  if (checked != NcclResult::success) return checked;
  if (type != NcclType::int8 || fake_nccl::group_depth == 0 || transfer.peer < 0 ||
      transfer.peer >= comm->size || !driver->owns(transfer.data, transfer.bytes)) {
    return refuse(call, "of memory that is not the GPU's", NcclResult::invalid_argument);
  }
  fake_nccl::group_calls.push_back(transfer);
  return NcclResult::success;
}

NcclResult FakeNccl::State::submit_group() {
  const std::vector<Transfer> calls = std::exchange(fake_nccl::group_calls, {});
  const NcclResult error = std::exchange(fake_nccl::group_error, NcclResult::success);
  if (error != NcclResult::success || calls.empty()) return error;
  const std::shared_ptr<Comm> comm = find(calls[0].comm, "ncclGroupEnd");
  if (comm == nullptr) return NcclResult::invalid_argument;
  const auto size = static_cast<size_t>(comm->size);
  Exchange exchange{.kind = fake_nccl::Kind::all_to_all,
                    .bytes = calls[0].bytes,
                    .from = std::vector<const std::byte*>(size),
                    .to = std::vector<std::byte*>(size)};
  for (const Transfer& call : calls) {
    const auto peer = static_cast<size_t>(call.peer);
    if (call.comm != calls[0].comm || call.stream != calls[0].stream ||
        call.bytes != exchange.bytes) {
      return refuse("ncclGroupEnd", "of unequal calls", NcclResult::invalid_usage);
    }
    if (call.is_send) {
      exchange.from[peer] = call.data;
    } else {
      exchange.to[peer] = call.data;
    }
  }
  const auto is_missing = [](const std::byte* data) { return data == nullptr; };
  if (std::ranges::any_of(exchange.from, is_missing) ||
      std::ranges::any_of(exchange.to, is_missing) || calls.size() != 2 * size) {
    return refuse(
        "ncclGroupEnd", "of other calls than one of each rank", NcclResult::invalid_usage);
  }
  comm->has_sent = true;
  return submit(comm, exchange, calls[0].stream);
}

NcclResult FakeNccl::State::submit(const std::shared_ptr<Comm>& comm,
                                   const Exchange& exchange,
                                   CUstream stream) {
  if (exchange.bytes * exchange.from.size() > fake_nccl::kMostBytes) {
    return refuse("an exchange", "of more bytes than the fake moves", NcclResult::internal_error);
  }
  ++num_exchanges;
  const auto begin = [comm, exchange] {
    const uint64_t number = ++comm->num_begun;
    fake_nccl::Slot& mine = comm->slot(comm->rank, number);
    mine.kind = exchange.kind;
    mine.bytes = exchange.bytes;
    for (size_t i = 0; i < exchange.from.size(); ++i) {
      std::memcpy(mine.data.data() + i * exchange.bytes, exchange.from[i], exchange.bytes);
    }
    comm->shared(comm->rank).num_begun.store(number, std::memory_order_release);
    return number;
  };
  const auto is_ready = [comm](uint64_t number) {
    if (comm->is_aborted) return true;
    for (int rank = 0; rank < comm->size; ++rank) {
      if (comm->shared(rank).num_begun.load(std::memory_order_acquire) < number) return false;
    }
    return true;
  };
  const auto finish_it = [this, comm, exchange](uint64_t number) {
    if (!comm->is_aborted) finish(*comm, exchange, number);
  };
  const CUresult result = driver->submit(
      stream,
      device::cuda::FakeExchange{.begin = begin, .is_ready = is_ready, .finish = finish_it});
  return result == CUDA_SUCCESS ? NcclResult::success : NcclResult::unhandled_cuda_error;
}

void FakeNccl::State::finish(Comm& comm, const Exchange& exchange, uint64_t number) {
  for (int rank = 0; rank < comm.size; ++rank) {
    const fake_nccl::Slot& theirs = comm.slot(rank, number);
    if (theirs.kind != exchange.kind || theirs.bytes != exchange.bytes) {
      driver->add_misuse(fmt::format(
          "exchange {}: rank {} moves {} bytes in kind {}, and rank {} {} bytes in kind {}",
          number,
          rank,
          theirs.bytes,
          static_cast<uint64_t>(theirs.kind),
          comm.rank,
          exchange.bytes,
          static_cast<uint64_t>(exchange.kind)));
      return;
    }
    const size_t part = exchange.kind == fake_nccl::Kind::all_gather
                            ? 0
                            : static_cast<size_t>(comm.rank) * exchange.bytes;
    std::memcpy(exchange.to[static_cast<size_t>(rank)], theirs.data.data() + part, exchange.bytes);
  }
}

FakeNccl::FakeNccl(device::cuda::FakeDriver& driver) : state_(std::make_unique<State>(driver)) {
  if (fake_nccl::fake != nullptr) throw std::logic_error("there is a FakeNccl already");
  fake_nccl::fake = state_.get();
  state_->api = {.get_version = fake_nccl::get_version,
                 .get_unique_id = fake_nccl::get_unique_id,
                 .comm_init_rank = fake_nccl::comm_init_rank,
                 .comm_destroy = fake_nccl::comm_destroy,
                 .comm_abort = fake_nccl::comm_abort,
                 .comm_get_async_error = fake_nccl::comm_get_async_error,
                 .get_error_string = fake_nccl::get_error_string,
                 .get_last_error = fake_nccl::get_last_error,
                 .all_gather = fake_nccl::all_gather,
                 .send = fake_nccl::send,
                 .recv = fake_nccl::recv,
                 .group_start = fake_nccl::group_start,
                 .group_end = fake_nccl::group_end};
}

FakeNccl::~FakeNccl() {
  state_->is_over = true;
  // Threads that wait in ncclCommInitRank for ranks that never come must leave first.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  fake_nccl::fake = nullptr;
}

const NcclApi& FakeNccl::api() const noexcept { return state_->api; }

void FakeNccl::fail_later(NcclResult error) noexcept { state_->later_error = error; }

uint64_t FakeNccl::num_exchanges() const noexcept { return state_->num_exchanges; }

size_t FakeNccl::num_communicators() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->comms.size();
}

uint64_t FakeNccl::num_aborts() const noexcept { return state_->num_aborts; }

}  // namespace reprise::kernels::cuda
