#include "reprise/device/cuda/fake_driver_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

namespace reprise::device::cuda {
namespace {

constexpr size_t kTotalBytes = size_t{4} << 30;
constexpr size_t kAlignment = 256;  // as little as the driver promises

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
  std::function<void()> work;  // of a library
};

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
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
};

struct Stream {
  std::shared_ptr<Capture> capture;
  std::vector<size_t> frontier;  // nodes that the next one waits for
};

struct Event {
  std::shared_ptr<Capture> capture;
  std::vector<size_t> frontier;
};

struct Function {
  std::string name;
  FakeKernel kernel;
};

struct Module {
  std::map<std::string, Function> functions;
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

}  // namespace

struct FakeDriver::State {
  std::recursive_mutex mutex;  // a kernel may ask nothing of the driver, but a test's host code may
  std::map<std::string, FakeKernel> kernels;
  uint64_t num_calls = 0;
  uint64_t failing_call = 0;
  CUresult error = CUDA_SUCCESS;
  bool is_lost = false;
  std::string failed_call;
  std::vector<std::string> misuses;

  size_t contexts = 0;
  std::map<CUdeviceptr, size_t> allocations;
  size_t allocated_bytes = 0;
  std::set<void*> host_allocations;
  Handles<Stream> streams;
  Handles<Event> events;
  Handles<Module> modules;
  Handles<Graph> graphs;
  Handles<Graph> executables;
  std::map<std::thread::id, CUstreamCaptureMode> modes;
  std::map<std::thread::id, CUcontext> current;

  /// The result to return at once, or CUDA_SUCCESS to go on.
  CUresult enter(const char* call) {
    ++num_calls;
    if (is_lost) return error;
    if (num_calls != failing_call) return CUDA_SUCCESS;
    failed_call = call;
    is_lost = error == CUDA_ERROR_ILLEGAL_ADDRESS || error == CUDA_ERROR_LAUNCH_FAILED;
    return error;
  }
  CUresult misuse(std::string text, CUresult result = CUDA_ERROR_INVALID_HANDLE) {
    misuses.push_back(std::move(text));
    return result;
  }

  /// What the driver holds for itself: a context, code, executable graphs.
  [[nodiscard]] size_t overhead_bytes() const {
    size_t bytes = (contexts << 26) + (modules.size() << 21);
    for (const auto& exec : executables) bytes += 65536 + exec->nodes.size() * 1024;
    return bytes;
  }

  CUstreamCaptureMode& mode_of_thread() {
    return modes.try_emplace(std::this_thread::get_id(), CU_STREAM_CAPTURE_MODE_GLOBAL)
        .first->second;
  }
  /// What a capture forbids on its thread, unless the thread's mode is relaxed.
  CUresult enter_unsafe() {
    if (mode_of_thread() == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    for (const auto& stream : streams) {
      Capture* capture = stream->capture.get();
      if (capture == nullptr || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
      if (capture->thread != std::this_thread::get_id()) continue;
      capture->is_valid = false;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
  }

  [[nodiscard]] bool owns(CUdeviceptr address, size_t bytes) const {
    auto next = allocations.upper_bound(address);
    if (next == allocations.begin()) return false;
    --next;
    return address + bytes <= next->first + next->second;
  }

  void run(const Node& node) const {
    if (node.work) {
      node.work();
    } else if (node.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
      std::memcpy(reinterpret_cast<void*>(node.destination),
                  reinterpret_cast<const void*>(node.source),
                  node.bytes);
    } else if (node.type == CU_GRAPH_NODE_TYPE_MEMSET) {
      std::memset(reinterpret_cast<void*>(node.destination), node.value, node.bytes);
    } else if (node.type == CU_GRAPH_NODE_TYPE_KERNEL) {
      reinterpret_cast<const Function*>(node.function)
          ->kernel.run({.parameter = node.parameter.data(),
                        .num_blocks = node.num_blocks,
                        .threads_per_block = node.threads_per_block,
                        .shared_bytes = node.shared_bytes,
                        .is_programmatic = node.is_programmatic});
    }
  }

  CUresult submit(CUstream handle, Node node) {
    if (!streams.has(handle)) return misuse("work on a stream that does not exist");
    auto* stream = reinterpret_cast<Stream*>(handle);
    if (stream->capture == nullptr) {
      run(node);
      return CUDA_SUCCESS;
    }
    if (!stream->capture->is_valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    node.waits_for = stream->frontier;
    auto& nodes = stream->capture->graph->nodes;
    stream->frontier = {nodes.size()};
    nodes.push_back(std::make_unique<Node>(std::move(node)));
    return CUDA_SUCCESS;
  }

  /// Whether every node lies on the way to the origin's last ones.
  static bool is_joined(const Capture& capture) {
    const auto& nodes = capture.graph->nodes;
    std::vector<bool> reached(nodes.size(), false);
    std::vector<size_t> waiting = capture.origin->frontier;
    while (!waiting.empty()) {
      const size_t node = waiting.back();
      waiting.pop_back();
      if (reached[node]) continue;
      reached[node] = true;
      waiting.insert(waiting.end(), nodes[node]->waits_for.begin(), nodes[node]->waits_for.end());
    }
    return std::ranges::all_of(reached, [](bool is) { return is; });
  }

  static void leave(Capture& capture) {
    capture.is_open = false;
    for (Stream* stream : capture.streams) {
      stream->capture = nullptr;
      stream->frontier.clear();
    }
  }
};

namespace {

// The functions of the driver know no object: there is one fake at a time.
FakeDriver::State* fake = nullptr;

using Lock = std::lock_guard<std::recursive_mutex>;

#define FAKE_ENTER(call)                                                            \
  const Lock lock(fake->mutex);                                                     \
  if (const CUresult failed = fake->enter(call); failed != CUDA_SUCCESS) return failed

// Does its work whatever it returns.
#define FAKE_RELEASE(call)      \
  const Lock lock(fake->mutex); \
  const CUresult result = fake->enter(call)

CUresult init(unsigned int) {
  FAKE_ENTER("cuInit");
  return CUDA_SUCCESS;
}
CUresult driver_get_version(int* version) {
  FAKE_ENTER("cuDriverGetVersion");
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult get_error_name(CUresult result, const char** name) {
  *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
CUresult get_error_string(CUresult, const char** text) {
  *text = "as the test asked";
  return CUDA_SUCCESS;
}
CUresult device_get(CUdevice* device, int index) {
  FAKE_ENTER("cuDeviceGet");
  *device = index;
  return CUDA_SUCCESS;
}
CUresult device_get_count(int* count) {
  FAKE_ENTER("cuDeviceGetCount");
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult device_get_name(char* name, int length, CUdevice) {
  FAKE_ENTER("cuDeviceGetName");
  std::strncpy(name, "Fake GPU", static_cast<size_t>(length) - 1);
  return CUDA_SUCCESS;
}
CUresult device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  FAKE_ENTER("cuDeviceGetAttribute");
  *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 4 : 9;
  return CUDA_SUCCESS;
}
CUresult device_total_mem(size_t* bytes, CUdevice) {
  FAKE_ENTER("cuDeviceTotalMem");
  *bytes = kTotalBytes;
  return CUDA_SUCCESS;
}
CUresult device_primary_ctx_retain(CUcontext* context, CUdevice) {
  FAKE_ENTER("cuDevicePrimaryCtxRetain");
  ++fake->contexts;
  *context = reinterpret_cast<CUcontext>(fake);
  return CUDA_SUCCESS;
}
CUresult device_primary_ctx_release(CUdevice) {
  FAKE_RELEASE("cuDevicePrimaryCtxRelease");
  --fake->contexts;
  return result;
}
CUresult ctx_set_current(CUcontext context) {
  const Lock lock(fake->mutex);
  if (fake->is_lost) return fake->error;  // not worth a number: it precedes every call
  fake->current[std::this_thread::get_id()] = context;
  return CUDA_SUCCESS;
}

CUresult mem_alloc(CUdeviceptr* address, size_t bytes) {
  FAKE_ENTER("cuMemAlloc");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (fake->allocated_bytes + bytes > kTotalBytes) return CUDA_ERROR_OUT_OF_MEMORY;
  // One unit off every larger alignment.
  void* data = std::aligned_alloc(8192, (bytes + kAlignment + 8191) / 8192 * 8192);
  const CUdeviceptr base = reinterpret_cast<CUdeviceptr>(data) + kAlignment;
  std::memset(reinterpret_cast<void*>(base), 0xFF, bytes);
  fake->allocations.emplace(base, bytes);
  fake->allocated_bytes += bytes;
  *address = base;
  return CUDA_SUCCESS;
}
CUresult mem_free(CUdeviceptr address) {
  FAKE_RELEASE("cuMemFree");
  if (const CUresult unsafe = fake->enter_unsafe(); unsafe != CUDA_SUCCESS) return unsafe;
  const auto found = fake->allocations.find(address);
  if (found == fake->allocations.end()) return fake->misuse("cuMemFree of foreign memory");
  fake->allocated_bytes -= found->second;
  fake->allocations.erase(found);
  std::free(reinterpret_cast<void*>(address - kAlignment));
  return result;
}
CUresult mem_host_alloc(void** data, size_t bytes, unsigned int) {
  FAKE_ENTER("cuMemHostAlloc");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  *data = std::malloc(bytes);
  fake->host_allocations.insert(*data);
  return CUDA_SUCCESS;
}
CUresult mem_free_host(void* data) {
  FAKE_RELEASE("cuMemFreeHost");
  if (fake->host_allocations.erase(data) == 0) {
    return fake->misuse("cuMemFreeHost of foreign memory");
  }
  std::free(data);
  return result;
}
CUresult mem_get_info(size_t* free, size_t* total) {
  FAKE_ENTER("cuMemGetInfo");
  *total = kTotalBytes;
  *free = kTotalBytes - fake->allocated_bytes - fake->overhead_bytes();
  return CUDA_SUCCESS;
}

CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, bool host) {
  if (host && fake->streams.has(stream) &&
      reinterpret_cast<Stream*>(stream)->capture != nullptr) {
    return fake->misuse("a copy from or to the host was captured");
  }
  return fake->submit(
      stream,
      {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .destination = to, .source = from, .bytes = bytes});
}
CUresult memcpy_htod_async(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  FAKE_ENTER("cuMemcpyHtoDAsync");
  if (!fake->owns(to, bytes)) return fake->misuse("a copy to foreign memory");
  return copy(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream, true);
}
CUresult memcpy_dtoh_async(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  FAKE_ENTER("cuMemcpyDtoHAsync");
  if (!fake->owns(from, bytes)) return fake->misuse("a copy from foreign memory");
  return copy(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream, true);
}
CUresult memcpy_dtod_async(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  FAKE_ENTER("cuMemcpyDtoDAsync");
  if (!fake->owns(from, bytes) || !fake->owns(to, bytes)) {
    return fake->misuse("a copy of foreign memory");
  }
  return copy(to, from, bytes, stream, false);
}
CUresult memset_d8_async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  FAKE_ENTER("cuMemsetD8Async");
  if (!fake->owns(to, bytes)) return fake->misuse("a fill of foreign memory");
  return fake->submit(stream,
                      {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                       .destination = to,
                       .value = value,
                       .bytes = bytes});
}

CUresult stream_create(CUstream* stream, unsigned int) {
  FAKE_ENTER("cuStreamCreate");
  *stream = reinterpret_cast<CUstream>(fake->streams.make());
  return CUDA_SUCCESS;
}
CUresult stream_destroy(CUstream stream) {
  FAKE_RELEASE("cuStreamDestroy");
  if (!fake->streams.has(stream)) return fake->misuse("cuStreamDestroy of no stream");
  if (reinterpret_cast<Stream*>(stream)->capture != nullptr) {
    fake->misuses.emplace_back("cuStreamDestroy of a capturing stream");
    FakeDriver::State::leave(*reinterpret_cast<Stream*>(stream)->capture);
  }
  fake->streams.erase(stream);
  return result;
}
CUresult stream_synchronize(CUstream handle) {
  FAKE_ENTER("cuStreamSynchronize");
  if (!fake->streams.has(handle)) return fake->misuse("cuStreamSynchronize of no stream");
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  stream->capture->is_valid = false;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
CUresult stream_wait_event(CUstream stream_handle, CUevent event_handle, unsigned int) {
  FAKE_ENTER("cuStreamWaitEvent");
  if (!fake->streams.has(stream_handle) || !fake->events.has(event_handle)) {
    return fake->misuse("cuStreamWaitEvent of what does not exist");
  }
  auto* stream = reinterpret_cast<Stream*>(stream_handle);
  const auto* event = reinterpret_cast<const Event*>(event_handle);
  if (event->capture == nullptr) {
    if (stream->capture == nullptr) return CUDA_SUCCESS;
    stream->capture->is_valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (!event->capture->is_open) return CUDA_ERROR_CAPTURED_EVENT;
  if (!event->capture->is_valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->capture != nullptr && stream->capture != event->capture) {
    stream->capture->is_valid = false;
    event->capture->is_valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (stream->capture == nullptr) {
    stream->capture = event->capture;
    stream->capture->streams.push_back(stream);
  }
  for (size_t node : event->frontier) {
    if (std::ranges::find(stream->frontier, node) == stream->frontier.end()) {
      stream->frontier.push_back(node);
    }
  }
  return CUDA_SUCCESS;
}
CUresult stream_begin_capture(CUstream handle, CUstreamCaptureMode mode) {
  FAKE_ENTER("cuStreamBeginCapture");
  if (!fake->streams.has(handle)) return fake->misuse("cuStreamBeginCapture of no stream");
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->thread = std::this_thread::get_id();
  stream->capture->mode = mode;
  stream->capture->streams = {stream};
  return CUDA_SUCCESS;
}
CUresult stream_end_capture(CUstream handle, CUgraph* graph) {
  FAKE_RELEASE("cuStreamEndCapture");
  *graph = nullptr;
  if (!fake->streams.has(handle)) return fake->misuse("cuStreamEndCapture of no stream");
  auto* stream = reinterpret_cast<Stream*>(handle);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) {
    capture->is_valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const bool is_joined = FakeDriver::State::is_joined(*capture);
  FakeDriver::State::leave(*capture);
  if (result != CUDA_SUCCESS) return result;
  if (!capture->is_valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!is_joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = reinterpret_cast<CUgraph>(fake->graphs.make(std::move(*capture->graph)));
  return CUDA_SUCCESS;
}
CUresult thread_exchange_capture_mode(CUstreamCaptureMode* mode) {
  const Lock lock(fake->mutex);  // swaps a variable of the thread: nothing that could fail
  std::swap(*mode, fake->mode_of_thread());
  return CUDA_SUCCESS;
}

CUresult event_create(CUevent* event, unsigned int) {
  FAKE_ENTER("cuEventCreate");
  *event = reinterpret_cast<CUevent>(fake->events.make());
  return CUDA_SUCCESS;
}
CUresult event_destroy(CUevent event) {
  FAKE_RELEASE("cuEventDestroy");
  if (!fake->events.has(event)) return fake->misuse("cuEventDestroy of no event");
  fake->events.erase(event);
  return result;
}
CUresult event_record(CUevent event_handle, CUstream stream_handle) {
  FAKE_ENTER("cuEventRecord");
  if (!fake->streams.has(stream_handle) || !fake->events.has(event_handle)) {
    return fake->misuse("cuEventRecord of what does not exist");
  }
  auto* event = reinterpret_cast<Event*>(event_handle);
  const auto* stream = reinterpret_cast<const Stream*>(stream_handle);
  if (stream->capture != nullptr && !stream->capture->is_valid) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  event->capture = stream->capture;
  event->frontier = stream->frontier;
  return CUDA_SUCCESS;
}
CUresult look_at(CUevent handle) {
  if (!fake->events.has(handle)) return fake->misuse("an event that does not exist");
  auto* event = reinterpret_cast<Event*>(handle);
  if (event->capture == nullptr) return CUDA_SUCCESS;
  event->capture->is_valid = false;
  return CUDA_ERROR_CAPTURED_EVENT;
}
CUresult event_query(CUevent event) {
  FAKE_ENTER("cuEventQuery");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  return look_at(event);
}
CUresult event_synchronize(CUevent event) {
  FAKE_ENTER("cuEventSynchronize");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  return look_at(event);
}
CUresult event_elapsed_time(float* milliseconds, CUevent, CUevent) {
  FAKE_ENTER("cuEventElapsedTime");
  *milliseconds = 0;
  return CUDA_SUCCESS;
}

CUresult module_load_data(CUmodule* module, const void*) {
  FAKE_ENTER("cuModuleLoadData");
  if (const CUresult result = fake->enter_unsafe(); result != CUDA_SUCCESS) return result;
  Module made;
  for (const auto& [name, kernel] : fake->kernels) made.functions[name] = {name, kernel};
  *module = reinterpret_cast<CUmodule>(fake->modules.make(std::move(made)));
  return CUDA_SUCCESS;
}
CUresult module_unload(CUmodule module) {
  FAKE_RELEASE("cuModuleUnload");
  if (!fake->modules.has(module)) return fake->misuse("cuModuleUnload of no module");
  fake->modules.erase(module);
  return result;
}
CUresult module_get_function(CUfunction* function, CUmodule handle, const char* name) {
  FAKE_ENTER("cuModuleGetFunction");
  auto& functions = reinterpret_cast<Module*>(handle)->functions;
  const auto found = functions.find(name);
  if (found == functions.end()) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(&found->second);
  return CUDA_SUCCESS;
}
CUresult func_set_attribute(CUfunction, CUfunction_attribute, int value) {
  FAKE_ENTER("cuFuncSetAttribute");
  return value <= 227 * 1024 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult func_get_name(const char** name, CUfunction function) {
  FAKE_ENTER("cuFuncGetName");
  *name = reinterpret_cast<const Function*>(function)->name.c_str();
  return CUDA_SUCCESS;
}
CUresult launch_kernel(const CUlaunchConfig* config,
                       CUfunction handle,
                       void** parameters,
                       void** extra) {
  FAKE_ENTER("cuLaunchKernelEx");
  if (fake->current[std::this_thread::get_id()] == nullptr) {
    return fake->misuse("a launch without a context", CUDA_ERROR_INVALID_CONTEXT);
  }
  const bool is_valid = config->gridDimX > 0 && config->gridDimY == 1 && config->gridDimZ == 1 &&
                        config->blockDimX > 0 && config->blockDimX <= 1024 &&
                        config->blockDimY == 1 && config->blockDimZ == 1 && extra == nullptr;
  if (!is_valid) return CUDA_ERROR_INVALID_VALUE;
  bool is_programmatic = false;
  for (unsigned int i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    is_programmatic = config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
  }
  const auto* function = reinterpret_cast<const Function*>(handle);
  const auto* begin = static_cast<const std::byte*>(parameters[0]);
  return fake->submit(
      config->hStream,
      {.type = CU_GRAPH_NODE_TYPE_KERNEL,
       .function = handle,
       .num_blocks = config->gridDimX,
       .threads_per_block = config->blockDimX,
       .shared_bytes = config->sharedMemBytes,
       .is_programmatic = is_programmatic,
       .parameter = std::vector<std::byte>(begin, begin + function->kernel.parameter_bytes)});
}

CUresult graph_destroy(CUgraph graph) {
  FAKE_RELEASE("cuGraphDestroy");
  if (!fake->graphs.has(graph)) return fake->misuse("cuGraphDestroy of no graph");
  fake->graphs.erase(graph);
  return result;
}
// Last node first: callers must not take the order for the order of work.
CUresult graph_get_nodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  FAKE_ENTER("cuGraphGetNodes");
  const auto& all = reinterpret_cast<const Graph*>(handle)->nodes;
  for (size_t i = 0; nodes != nullptr && i < std::min(*count, all.size()); ++i) {
    nodes[i] = reinterpret_cast<CUgraphNode>(all[all.size() - 1 - i].get());
  }
  *count = all.size();
  return CUDA_SUCCESS;
}
CUresult graph_get_edges(
    CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  FAKE_ENTER("cuGraphGetEdges");
  const auto& all = reinterpret_cast<const Graph*>(handle)->nodes;
  size_t next = 0;
  for (const auto& node : all) {
    for (size_t waits_for : node->waits_for) {
      if (from != nullptr && next < *count) {
        from[next] = reinterpret_cast<CUgraphNode>(all[waits_for].get());
        to[next] = reinterpret_cast<CUgraphNode>(node.get());
        data[next] = {};
      }
      ++next;
    }
  }
  *count = next;
  return CUDA_SUCCESS;
}
CUresult graph_node_get_type(CUgraphNode node, CUgraphNodeType* type) {
  FAKE_ENTER("cuGraphNodeGetType");
  *type = reinterpret_cast<const Node*>(node)->type;
  return CUDA_SUCCESS;
}
CUresult graph_kernel_node_get_params(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* params) {
  FAKE_ENTER("cuGraphKernelNodeGetParams");
  const auto* node = reinterpret_cast<const Node*>(handle);
  *params = {};
  params->func = node->function;
  params->gridDimX = node->num_blocks;
  params->gridDimY = params->gridDimZ = 1;
  params->blockDimX = node->threads_per_block;
  return CUDA_SUCCESS;
}
Graph clone(const Graph& graph) {
  Graph copy;
  for (const auto& node : graph.nodes) copy.nodes.push_back(std::make_unique<Node>(*node));
  return copy;
}
CUresult graph_instantiate(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  FAKE_ENTER("cuGraphInstantiate");
  *exec = reinterpret_cast<CUgraphExec>(
      fake->executables.make(clone(*reinterpret_cast<const Graph*>(graph))));
  return CUDA_SUCCESS;
}
CUresult graph_upload(CUgraphExec exec, CUstream) {
  FAKE_ENTER("cuGraphUpload");
  return fake->executables.has(exec) ? CUDA_SUCCESS : fake->misuse("cuGraphUpload of no graph");
}
CUresult graph_launch(CUgraphExec handle, CUstream stream) {
  FAKE_ENTER("cuGraphLaunch");
  if (!fake->executables.has(handle) || !fake->streams.has(stream)) {
    return fake->misuse("cuGraphLaunch of what does not exist");
  }
  if (reinterpret_cast<Stream*>(stream)->capture != nullptr) {
    return fake->misuse("cuGraphLaunch on a capturing stream");
  }
  for (const auto& node : reinterpret_cast<const Graph*>(handle)->nodes) fake->run(*node);
  return CUDA_SUCCESS;
}
CUresult graph_exec_update(CUgraphExec exec, CUgraph handle, CUgraphExecUpdateResultInfo* info) {
  FAKE_ENTER("cuGraphExecUpdate");
  auto& old = *reinterpret_cast<Graph*>(exec);
  const auto& graph = *reinterpret_cast<const Graph*>(handle);
  const bool fits = std::ranges::equal(old.nodes, graph.nodes, [](const auto& a, const auto& b) {
    return a->type == b->type && a->waits_for == b->waits_for && a->function == b->function;
  });
  info->result = fits ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (!fits) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  old = clone(graph);
  return CUDA_SUCCESS;
}
CUresult graph_exec_destroy(CUgraphExec exec) {
  FAKE_RELEASE("cuGraphExecDestroy");
  if (!fake->executables.has(exec)) return fake->misuse("cuGraphExecDestroy of no graph");
  fake->executables.erase(exec);
  return result;
}

}  // namespace

FakeDriver::FakeDriver() : state_(std::make_unique<State>()) {
  if (fake != nullptr) throw std::logic_error("there is a FakeDriver already");
  fake = state_.get();
}

FakeDriver::~FakeDriver() {
  for (const auto& [address, bytes] : state_->allocations) {
    std::free(reinterpret_cast<void*>(address - kAlignment));
  }
  for (void* data : state_->host_allocations) std::free(data);
  fake = nullptr;
}

DriverApi FakeDriver::api() const noexcept {
  DriverApi api;
#define FAKE_MEMBER(member, symbol) api.member = member;
  REPRISE_CUDA_DRIVER_FUNCTIONS(FAKE_MEMBER)
#undef FAKE_MEMBER
  return api;
}

void FakeDriver::add_kernel(const std::string& function, FakeKernel kernel) {
  const Lock lock(state_->mutex);
  state_->kernels[function] = std::move(kernel);
}

void FakeDriver::fail_call(uint64_t k, CUresult error) {
  const Lock lock(state_->mutex);
  state_->num_calls = 0;
  state_->failing_call = k;
  state_->error = error;
  state_->is_lost = false;
  state_->failed_call.clear();
}

uint64_t FakeDriver::num_calls() const noexcept {
  const Lock lock(state_->mutex);
  return state_->num_calls;
}

std::string FakeDriver::failed_call() const {
  const Lock lock(state_->mutex);
  return state_->failed_call;
}

FakeResources FakeDriver::resources() const {
  const Lock lock(state_->mutex);
  return {.contexts = state_->contexts,
          .allocations = state_->allocations.size(),
          .host_allocations = state_->host_allocations.size(),
          .streams = state_->streams.size(),
          .events = state_->events.size(),
          .modules = state_->modules.size(),
          .graphs = state_->graphs.size(),
          .executables = state_->executables.size()};
}

std::vector<std::string> FakeDriver::misuses() const {
  const Lock lock(state_->mutex);
  return state_->misuses;
}

CUresult FakeDriver::enter(const char* call) {
  const Lock lock(state_->mutex);
  return state_->enter(call);
}

CUresult FakeDriver::submit(CUstream stream, std::function<void()> work) {
  const Lock lock(state_->mutex);
  return state_->submit(stream, {.type = CU_GRAPH_NODE_TYPE_KERNEL, .work = std::move(work)});
}

bool FakeDriver::is_capturing() const {
  const Lock lock(state_->mutex);
  return state_->mode_of_thread() != CU_STREAM_CAPTURE_MODE_RELAXED &&
         std::ranges::any_of(state_->streams, [](const auto& stream) {
           return stream->capture != nullptr &&
                  stream->capture->thread == std::this_thread::get_id();
         });
}

bool FakeDriver::owns(const void* address, size_t bytes) const {
  const Lock lock(state_->mutex);
  return state_->owns(reinterpret_cast<CUdeviceptr>(address), bytes);
}

void FakeDriver::add_misuse(std::string text) {
  const Lock lock(state_->mutex);
  state_->misuses.push_back(std::move(text));
}

}  // namespace reprise::device::cuda
