#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "reprise/device/cuda/driver_api.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"

/// The state that the parts of the fake driver share: its objects, and the calls that the parts
/// define.
namespace reprise::device::cuda::fake_driver {

constexpr size_t kDefaultTotalBytes = size_t{4} << 30;

/// The memory of the GPU that an executable graph of this size takes.
constexpr size_t bytes_of_executable(size_t num_nodes) { return 65536 + num_nodes * 1024; }

struct Node {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUfunction function = nullptr;
  uint32_t num_blocks = 0;
  uint32_t threads_per_block = 0;
  uint32_t shared_bytes = 0;
  bool is_programmatic = false;
  std::vector<std::byte> parameter;
  CUdeviceptr destination = 0;
  CUdeviceptr source = 0;
  unsigned char value = 0;
  size_t bytes = 0;
  std::vector<size_t> waits_for;
  std::function<void()> work;  // the work of a library; empty if the node is a kernel
  std::shared_ptr<const FakeExchange> exchange;  // the same, with other GPUs
  double microseconds = 1;                       // of the fake GPU's clock
};

struct Graph {
  std::vector<std::shared_ptr<Node>> nodes;  // work that was launched keeps its nodes
};

struct Queue;

/// The point in a stream's work at which an event was recorded.
struct RecordedPoint {
  std::shared_ptr<Queue> queue;
  bool is_complete = false;
  double microseconds = 0;  // on the fake GPU's clock, once it is complete
};

/// One piece of work that a stream still has to do: exactly one of the members is set.
struct QueuedWork {
  std::shared_ptr<const Node> node;
  std::shared_ptr<RecordedPoint> completes;
  std::shared_ptr<RecordedPoint> waits_for;
  std::optional<uint64_t> exchange = {};  // its number, once it has begun
};

/// The work that a stream was asked to do and has not done. A queue outlives its stream: the driver
/// finishes the work of destroyed streams.
struct Queue {
  std::deque<QueuedWork> work;
  int gpu = 0;
};

struct Stream;

struct Capture {
  Stream* origin = nullptr;
  std::thread::id thread;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool is_valid = true;
  bool is_open = true;
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::vector<Stream*> streams;

  /// Whether the origin stream's last nodes depend on every node of the capture.
  [[nodiscard]] bool is_joined() const;
  /// Removes all streams from the capture.
  void end();
};

struct Stream {
  std::shared_ptr<Capture> capture;
  std::vector<size_t> frontier;  // nodes that the next one waits for
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
};

struct Event {
  std::shared_ptr<Capture> capture;
  std::vector<size_t> frontier;
  std::shared_ptr<RecordedPoint> point;  // nullptr: recorded in a capture, or never
  bool has_time = false;
};

struct Function {
  std::string name;
  FakeKernel kernel;
};

struct Module {
  FakeImage image;
  std::map<std::string, Function> functions;  // functions that were looked up
};

struct FreeMemory {
  void operator()(void* data) const noexcept { std::free(data); }
};
using HostMemory = std::unique_ptr<void, FreeMemory>;

struct Allocation {   // memory of the GPU, or page-locked memory of the host
  HostMemory memory;  // the address lies within it
  size_t bytes = 0;
};

struct UnmapPages {
  size_t bytes = 0;
  void operator()(void* data) const noexcept { munmap(data, bytes); }
};
using HostPages = std::unique_ptr<void, UnmapPages>;

struct Reservation {
  size_t bytes = 0;
  HostPages pages;  // contain the range
};

/// Memory of the GPU. It exists while a handle or a mapping refers to it.
struct PhysicalMemory {
  PhysicalMemory(size_t size, size_t* held) : bytes(size), held_bytes(held) {}
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;
  ~PhysicalMemory() { *held_bytes -= bytes; }

  size_t bytes;
  size_t* held_bytes;  // of the whole GPU
};

struct PhysicalHandle {
  int file = -1;
  std::shared_ptr<PhysicalMemory> memory;
};

struct Mapping {
  size_t bytes = 0;
  bool is_accessible = false;
  std::shared_ptr<PhysicalMemory> memory;
};

template <typename T>
class Handles {
 public:
  T* make(T value = {}) {
    live_.push_back(std::make_unique<T>(std::move(value)));
    return live_.back().get();
  }
  [[nodiscard]] bool has(const void* handle) const {
    return std::ranges::any_of(live_, [&](const auto& one) { return one.get() == handle; });
  }
  void erase(const void* handle) {
    std::erase_if(live_, [&](const auto& one) { return one.get() == handle; });
  }
  [[nodiscard]] size_t size() const { return live_.size(); }
  [[nodiscard]] auto begin() const { return live_.begin(); }
  [[nodiscard]] auto end() const { return live_.end(); }

 private:
  std::vector<std::unique_ptr<T>> live_;
};

}  // namespace reprise::device::cuda::fake_driver

namespace reprise::device::cuda {

/// The whole state of the fake driver. `mutex` guards its members.
struct FakeDriver::State {
  // Recursive: a kernel never calls the driver, but a test's code that runs as work may do so.
  mutable std::recursive_mutex mutex;
  bool has_virtual_memory = true;
  std::map<std::string, FakeKernel> kernels;
  FakeImageReader image_reader;
  uint64_t num_calls = 0;
  uint64_t failing_call = 0;
  CUresult error = CUDA_SUCCESS;
  bool is_lost = false;
  std::string failed_call;
  std::vector<std::string> misuses;
  double microseconds = 0;  // of all work that was done
  std::function<double(const std::string& function, uint32_t num_blocks)> time_of_kernels;
  int architecture_of_code = 90;
  int block_shared_bytes = 227 * 1024;  // an H100's

  int num_gpus = 1;
  std::array<char, 16> context_of_gpu{};  // a context is the address of its GPU's element
  size_t contexts = 0;
  std::shared_ptr<PrimaryContexts> retained_contexts = std::make_shared<PrimaryContexts>();
  std::map<CUdeviceptr, fake_driver::Allocation> allocations;
  size_t allocated_bytes = 0;  // plain and physical memory
  size_t library_bytes = 0;
  std::map<CUdeviceptr, fake_driver::Reservation> reservations;
  std::vector<fake_driver::Reservation> released_reservations;  // while work is queued
  CUmemGenericAllocationHandle last_physical = 0;
  std::map<CUmemGenericAllocationHandle, fake_driver::PhysicalHandle> physical;
  std::map<CUdeviceptr, fake_driver::Mapping> mappings;
  std::map<CUdeviceptr, fake_driver::Allocation> host_allocations;
  fake_driver::Handles<fake_driver::Stream> streams;
  fake_driver::Handles<fake_driver::Event> events;
  fake_driver::Handles<fake_driver::Module> modules;
  fake_driver::Handles<fake_driver::Graph> graphs;
  fake_driver::Handles<fake_driver::Graph> executables;
  std::map<std::thread::id, CUstreamCaptureMode> modes;
  std::map<std::thread::id, CUcontext> current;

  /// Calls the observer, without the mutex.
  void tell_observer(const char* call) const;
  /// Numbers a call. \returns the result that the call must return at once, or CUDA_SUCCESS if the
  /// call continues
  CUresult enter(const char* call);
  /// For the calls that CUDA's documentation calls potentially unsafe: if the thread captures in a
  /// mode other than relaxed and has not exchanged its own mode for relaxed, the call is refused
  /// and the capture becomes invalid. The documentation names cudaMalloc only. Driver 580 also
  /// refused cuStreamSynchronize of a stream that took no part. The fake is strict for every call
  /// that waits for the GPU or changes memory or code: cuStreamSynchronize, cuEventQuery,
  /// cuEventSynchronize, cuMemAlloc, cuMemFree, cuMemHostAlloc, cuMemFreeHost, virtual memory,
  /// cuModuleLoadData and cuModuleUnload.
  CUresult enter_unsafe();
  CUresult misuse(std::string text, CUresult result = CUDA_ERROR_INVALID_HANDLE);

  size_t total_bytes = fake_driver::kDefaultTotalBytes;  // of the GPU's memory

  /// The memory that can still be allocated.
  [[nodiscard]] size_t free_bytes() const;
  /// The memory that the driver itself takes for contexts, code and executable graphs.
  [[nodiscard]] size_t overhead_bytes() const;
  CUstreamCaptureMode& mode_of_thread();
  [[nodiscard]] int gpu_of_thread() const;
  [[nodiscard]] bool owns(CUdeviceptr address, size_t bytes) const;

  /// Queues `node`, or records it in the stream's capture.
  CUresult submit(CUstream stream, fake_driver::Node node);

  // The queues, in fake_driver_queue_fixture.cpp.

  void push(const std::shared_ptr<fake_driver::Queue>& queue, fake_driver::QueuedWork work);
  /// Does all work of a queue, and all work of other queues that must be done before it.
  void drain(fake_driver::Queue& queue);
  /// The same for all queues of the calling thread's GPU.
  void drain_all();
  /// Lets the other GPUs work, and other threads call the driver.
  void let_others_work(int gpu);
  /// Begins the exchange at the front of a queue. Whether the queue can go on.
  bool has_exchanged(fake_driver::Queue& queue);
  /// Does the work that precedes the point.
  void reach(fake_driver::RecordedPoint& point);
  /// Does the next work of a queue, unless it must wait for another queue.
  void run_next(fake_driver::Queue& queue);
  /// May do some work during a call that does not wait, if the schedule is random.
  void run_early();
  /// Drops all queued work, as a GPU does when its context is lost.
  void drop_work();
  void run(const fake_driver::Node& node);
  [[nodiscard]] bool is_queued(const std::function<bool(const fake_driver::Node&)>& is_it) const;
  /// The result of a call that waited for work: an error if the work caused one.
  [[nodiscard]] CUresult status() const { return is_lost ? error : CUDA_SUCCESS; }

  // Accesses to addresses without memory, in fake_driver_fault_fixture.cpp.

  /// Does the work; reports accesses to reserved addresses that have no memory, which read as NaNs,
  /// and loses the context because of them.
  void run_guarded(const fake_driver::Node& node, const std::function<void()>& work);
  [[nodiscard]] bool is_reserved(CUdeviceptr address) const;

  std::vector<std::shared_ptr<fake_driver::Queue>> queues;  // those with work
  bool is_running = false;                                  // work of a queue
  std::mt19937 random;
  uint32_t calls_per_early_run = 0;
  uint32_t most_early_work = 0;
  uint64_t bytes_from_host = 0;
  std::map<std::string_view, uint64_t> calls_by_name;
  std::shared_ptr<const std::function<void(std::string_view)>> observer;
};

}  // namespace reprise::device::cuda

namespace reprise::device::cuda::fake_driver {

/// The driver's functions have no object parameter, so they use the only fake driver.
extern FakeDriver::State* fake;

using Lock = std::lock_guard<std::recursive_mutex>;

/// The first line of a call: numbers the call, and returns if the call must fail.
#define REPRISE_FAKE_ENTER(call) \
  fake->tell_observer(call);     \
  const Lock lock(fake->mutex);  \
  if (const CUresult failed = fake->enter(call); failed != CUDA_SUCCESS) return failed

/// The first line of a call that releases an object: the object is released even if the call must
/// fail.
#define REPRISE_FAKE_RELEASE(call) \
  const Lock lock(fake->mutex);    \
  const CUresult result = fake->enter(call)

/// Declares every call of the table by its member's name. The file of its subject defines it.
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared
#define REPRISE_FAKE_CALL(member, symbol) decltype(::symbol) member;
REPRISE_CUDA_DRIVER_FUNCTIONS(REPRISE_FAKE_CALL)
#undef REPRISE_FAKE_CALL

}  // namespace reprise::device::cuda::fake_driver
