#include <chrono>
#include <cstring>

#include "tests/support/fake_cuda/fake_driver_state_fixture.h"

// The GPU's side of the fake: streams work off their queues when the host waits for them, and with
// a schedule of random numbers also earlier.
namespace reprise::device::cuda {
using namespace fake_driver;  // the state's parts

namespace {

/// Zeroes large memory by giving its pages back, which is quicker than touching them all.
void fill(const Node& node) {
  constexpr size_t kLarge = size_t{1} << 20;
  constexpr CUdeviceptr kPage = 4096;
  const CUdeviceptr end = node.destination + node.bytes;
  const CUdeviceptr first_page = (node.destination + kPage - 1) / kPage * kPage;
  const CUdeviceptr end_page = end / kPage * kPage;
  const auto set = [&node](CUdeviceptr from, CUdeviceptr to) {
    std::memset(reinterpret_cast<void*>(from), node.value, to - from);
  };
  // Only mapped files can be zeroed like this; the memory of plain allocations cannot.
  if (node.value == 0 && node.bytes >= kLarge &&
      madvise(reinterpret_cast<void*>(first_page), end_page - first_page, MADV_REMOVE) == 0) {
    set(node.destination, first_page);
    set(end_page, end);
    return;
  }
  set(node.destination, end);
}

}  // namespace

void FakeDriver::State::push(const std::shared_ptr<Queue>& queue, QueuedWork work) {
  if (queue->work.empty()) queues.push_back(queue);
  queue->work.push_back(std::move(work));
}

void FakeDriver::State::run_next(Queue& queue) {
  if (queue.work.empty() || is_running) return;
  const QueuedWork next = queue.work.front();
  if (next.waits_for != nullptr && !next.waits_for->is_complete) return;
  if (!has_exchanged(queue)) return;
  if (next.node != nullptr) {
    is_running = true;
    if (next.node->exchange != nullptr) {
      const uint64_t number = queue.work.front().exchange.value_or(0);
      run_guarded(*next.node, [&] { next.node->exchange->finish(number); });
    } else {
      run(*next.node);
    }
    is_running = false;
    microseconds += next.node->microseconds;
    if (queue.work.empty()) return;  // the context was lost, and the work with it
  }
  if (next.completes != nullptr) {
    next.completes->is_complete = true;
    next.completes->microseconds = microseconds;
  }
  queue.work.pop_front();
  if (!queue.work.empty()) return;
  std::erase_if(queues, [&](const auto& one) { return one.get() == &queue; });
  if (queues.empty()) released_reservations.clear();
}

// An event is recorded before a stream is made to wait for it, so queues never wait in a circle.
void FakeDriver::State::drain(Queue& queue) {
  // A kernel of a test made this call: the kernel's own work cannot wait for itself.
  if (is_running) return;
  while (!queue.work.empty()) {
    const std::shared_ptr<RecordedPoint> waits_for = queue.work.front().waits_for;
    if (waits_for != nullptr && !waits_for->is_complete) reach(*waits_for);
    run_next(queue);
    if (!has_exchanged(queue)) let_others_work(queue.gpu);
  }
}

void FakeDriver::State::reach(RecordedPoint& point) {
  if (is_running) return;
  while (!point.is_complete && !point.queue->work.empty()) {
    const std::shared_ptr<RecordedPoint> waits_for = point.queue->work.front().waits_for;
    if (waits_for != nullptr && !waits_for->is_complete) reach(*waits_for);
    run_next(*point.queue);
    if (!has_exchanged(*point.queue)) let_others_work(point.queue->gpu);
  }
}

void FakeDriver::State::drain_all() {
  const int gpu = gpu_of_thread();
  while (!is_running) {
    const auto found =
        std::ranges::find_if(queues, [&](const auto& queue) { return queue->gpu == gpu; });
    if (found == queues.end()) return;
    const std::shared_ptr<Queue> queue = *found;
    drain(*queue);
  }
}

bool FakeDriver::State::has_exchanged(Queue& queue) {
  if (queue.work.empty() || is_running) return true;
  QueuedWork& next = queue.work.front();
  if (next.node == nullptr || next.node->exchange == nullptr) return true;
  const std::shared_ptr<const Node> node = next.node;
  if (!next.exchange) {
    is_running = true;
    run_guarded(*node, [&] { next.exchange = node->exchange->begin(); });
    is_running = false;
    if (queue.work.empty()) return true;  // the context was lost, and the work with it
  }
  return node->exchange->is_ready(*next.exchange);
}

void FakeDriver::State::let_others_work(int gpu) {
  {
    const Lock lock(mutex);
    const std::vector<std::shared_ptr<Queue>> all = queues;
    for (const auto& queue : all) {
      if (queue->gpu != gpu) run_next(*queue);
    }
    if (gpu >= 0) mutex.unlock();  // the caller's
  }
  std::this_thread::sleep_for(std::chrono::microseconds(20));
  if (gpu >= 0) mutex.lock();
}

void FakeDriver::State::run_early() {
  if (calls_per_early_run == 0 || queues.empty() || random() % calls_per_early_run != 0) return;
  for (uint32_t left = 1 + random() % most_early_work; left > 0 && !queues.empty(); --left) {
    const std::shared_ptr<Queue> queue = queues[random() % queues.size()];
    run_next(*queue);
  }
}

void FakeDriver::State::drop_work() {
  for (const auto& queue : queues) queue->work.clear();
  queues.clear();
  released_reservations.clear();
}

bool FakeDriver::State::is_queued(const std::function<bool(const Node&)>& is_it) const {
  return std::ranges::any_of(queues, [&](const auto& queue) {
    return std::ranges::any_of(queue->work, [&](const QueuedWork& work) {
      return work.node != nullptr && is_it(*work.node);
    });
  });
}

void FakeDriver::State::run(const Node& node) {
  run_guarded(node, [&node] {
    if (node.work) {
      node.work();
    } else if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
      const void* source = reinterpret_cast<const void*>(node.source);
      std::memcpy(reinterpret_cast<void*>(node.destination),
                  node.parameter.empty() ? source : node.parameter.data(),
                  node.bytes);
    } else if (node.type == CU_GRAPH_NODE_TYPE_MEMSET) {
      fill(node);
    } else if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) {
      reinterpret_cast<const Function*>(node.function)
          ->kernel.run({.parameter = node.parameter.data(),
                        .num_blocks = node.num_blocks,
                        .threads_per_block = node.threads_per_block,
                        .shared_bytes = node.shared_bytes,
                        .is_programmatic = node.is_programmatic});
    }
  });
}

}  // namespace reprise::device::cuda
