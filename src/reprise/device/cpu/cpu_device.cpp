#include "reprise/device/cpu/cpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "reprise/base/error.h"
#include "reprise/device/caching_pool.h"
#include "reprise/device/cpu/cpu_device_impl.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/device/cpu/cpu_graph.h"
#include "reprise/device/cpu/cpu_stream.h"
#include "reprise/device/cpu/usable_cores.h"
#include "reprise/device/page_size.h"

namespace reprise::device {
namespace {

// A request for more workers than this must be a mistake.
constexpr int kMostThreads = 1024;

WorkerTeam::Options team_options(const CpuDeviceOptions& options) {
  if (options.num_threads < 0 || options.num_threads > kMostThreads) {
    throw InvalidArgument(fmt::format("cpu: num_threads is {}; expected 0 (one per core) to {}",
                                      options.num_threads,
                                      kMostThreads));
  }
  if (options.spin_us < 0) {
    throw InvalidArgument(fmt::format("cpu: spin_us is {}; expected 0 or more", options.spin_us));
  }
  if (options.placement) {
    WorkerTeam::Options team{.num_workers = static_cast<int>(options.placement->workers.size()),
                             .spin_us = options.spin_us};
    if (!options.placement->is_bound) return team;
    for (const LogicalCpu& cpu : options.placement->workers) team.cores.push_back(cpu.number);
    return team;
  }
  const std::vector<int> cores = usable_cores();
  const auto most = static_cast<int>(cores.size());
  const bool all = options.num_threads == 0;
  const bool cut = options.num_threads > most && !options.allow_oversubscription;
  WorkerTeam::Options team{.num_workers = all || cut ? most : options.num_threads,
                           .spin_us = options.spin_us};
  if (team.num_workers > most) {
    team.spin_us = 0;  // a spinning worker would occupy the core that another worker needs
  } else if (options.pin_threads) {
    team.cores = cores;
  }
  return team;
}

}  // namespace

std::unique_ptr<Device> create_cpu_device(const CpuDeviceOptions& options) {
  return std::make_unique<CpuDevice>(team_options(options),
                                     options.placement.value_or(WorkerPlacement{}));
}

std::string CpuDevice::description() const {
  return fmt::format("{}, {} thread{}",
                     cpu_model_name(),
                     team_.num_workers(),
                     team_.num_workers() == 1 ? "" : "s");
}

Buffer CpuDevice::allocate(size_t bytes) { return Buffer(*this, acquire(bytes)); }

BufferView CpuDevice::acquire(size_t bytes) {
  forbid_while_capturing("Device::allocate", "allocate before the capture, or from a MemoryPool");
  return memory_.acquire(bytes);
}

void CpuDevice::spread_over_workers(BufferView memory) noexcept {
  // Small slices would cut huge pages.
  const size_t page = memory.bytes >= 64 * kHugePage ? kHugePage : 4096;
  for (const NodeSlice& slice : placement_.slices_of(memory.bytes, page)) {
    CpuMemory::prefer_node(
        static_cast<std::byte*>(memory.data) + slice.begin, slice.end - slice.begin, slice.node);
  }
}

std::unique_ptr<MemoryPool> CpuDevice::create_pool() {
  return std::make_unique<CachingPool>(memory_);
}

std::unique_ptr<Stream> CpuDevice::create_stream() { return std::make_unique<CpuStream>(*this); }

std::unique_ptr<Event> CpuDevice::create_event() { return std::make_unique<CpuEvent>(*this); }

std::unique_ptr<GraphExec> CpuDevice::instantiate(const Graph& graph) {
  const auto* cpu_graph = dynamic_cast<const CpuGraph*>(&graph);
  if (cpu_graph == nullptr) throw DeviceError("cpu: cannot instantiate a graph of another device");
  return std::make_unique<CpuGraphExec>(cpu_graph->block());
}

void CpuDevice::free(BufferView view) noexcept {
  if (CaptureSession* session = capture_of_this_thread(); session != nullptr) {
    session->invalidate("a Buffer was destroyed during the capture: recorded work may refer to it");
  }
  memory_.give_back(view);
}

void CpuDevice::discard(BufferView memory) noexcept {
  if (CaptureSession* session = capture_of_this_thread(); session != nullptr) {
    session->invalidate("memory was discarded during the capture: recorded work may refer to it");
  }
  memory_.discard(memory);
}

void CpuDevice::restore(BufferView /*memory*/) {
  // The system provides zeroed pages at the next access, so there is nothing else to do.
  forbid_while_capturing("DiscardableMemory::restore", "restore before the capture");
}

Buffer CpuDevice::reserve(size_t bytes) {
  forbid_while_capturing("ReservableMemory::reserve", "reserve before the capture");
  return Buffer(*this, memory_.reserve(bytes));
}

void CpuDevice::commit(BufferView buffer, size_t offset, size_t bytes) {
  forbid_while_capturing("ReservableMemory::commit", "commit before the capture");
  memory_.commit(buffer, offset, bytes);
}

std::shared_ptr<CaptureSession> CpuDevice::open_capture(CpuStream& origin) {
  auto session = std::make_shared<CaptureSession>(origin);
  const std::lock_guard lock(captures_mutex_);
  captures_.push_back(session.get());
  return session;
}

void CpuDevice::close_capture(CaptureSession& session) noexcept {
  const std::lock_guard lock(captures_mutex_);
  std::erase(captures_, &session);
}

void CpuDevice::forbid_while_capturing(const char* call, const char* advice) const {
  if (CaptureSession* session = capture_of_this_thread(); session != nullptr) {
    session->fail(fmt::format("cpu: {} while this thread captures; {}", call, advice));
  }
}

CaptureSession* CpuDevice::capture_of_this_thread() const noexcept {
  const std::lock_guard lock(captures_mutex_);
  const auto mine = [id = std::this_thread::get_id()](const CaptureSession* session) {
    return session->belongs_to(id);
  };
  const auto found = std::ranges::find_if(captures_, mine);
  return found == captures_.end() ? nullptr : *found;
}

}  // namespace reprise::device
