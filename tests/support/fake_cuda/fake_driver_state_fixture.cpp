#include "tests/support/fake_cuda/fake_driver_state_fixture.h"

#include <cstring>

namespace reprise::device::cuda {
using namespace fake_driver;  // for the parts of the state

namespace {

// Errors after which every call fails.
bool is_fatal(CUresult error) {
  return error == CUDA_ERROR_ILLEGAL_ADDRESS || error == CUDA_ERROR_LAUNCH_FAILED ||
         error == CUDA_ERROR_UNKNOWN || error == CUDA_ERROR_EXTERNAL_DEVICE;
}

}  // namespace

void FakeDriver::State::tell_observer(const char* call) const {
  std::shared_ptr<const std::function<void(std::string_view)>> told;
  {
    const Lock lock(mutex);
    told = observer;
  }
  if (told != nullptr && *told) (*told)(call);
}

CUresult FakeDriver::State::enter(const char* call) {
  ++num_calls;
  ++calls_by_name[call];
  if (is_lost) return error;
  if (num_calls == failing_call) {
    failed_call = call;
    is_lost = is_fatal(error);
    if (is_lost) drop_work();
    return error;
  }
  run_early();
  return status();
}

CUresult FakeDriver::State::enter_unsafe() {
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

CUresult FakeDriver::State::misuse(std::string text, CUresult result) {
  misuses.push_back(std::move(text));
  return result;
}

size_t FakeDriver::State::free_bytes() const {
  const size_t used = allocated_bytes + overhead_bytes();
  return total_bytes - std::min(total_bytes, used);
}

size_t FakeDriver::State::overhead_bytes() const {
  size_t bytes = (contexts << 26) + (modules.size() << 21) + library_bytes;
  for (const auto& exec : executables) bytes += bytes_of_executable(exec->nodes.size());
  return bytes;
}

CUstreamCaptureMode& FakeDriver::State::mode_of_thread() {
  return modes.try_emplace(std::this_thread::get_id(), CU_STREAM_CAPTURE_MODE_GLOBAL).first->second;
}

int FakeDriver::State::gpu_of_thread() const {
  const auto found = current.find(std::this_thread::get_id());
  if (found == current.end() || found->second == nullptr) return 0;
  return static_cast<int>(reinterpret_cast<const char*>(found->second) - context_of_gpu.data());
}

bool FakeDriver::State::owns(CUdeviceptr address, size_t bytes) const {
  if (auto next = allocations.upper_bound(address); next != allocations.begin()) {
    --next;
    if (address + bytes <= next->first + next->second.bytes) return true;
  }
  // Consecutive mappings count as one mapping.
  const CUdeviceptr end = address + bytes;
  auto next = mappings.upper_bound(address);
  if (next == mappings.begin()) return false;
  for (--next; next != mappings.end() && next->first <= address; ++next) {
    if (!next->second.is_accessible) return false;
    address = next->first + next->second.bytes;
    if (address >= end) return true;
  }
  return false;
}

CUresult FakeDriver::State::submit(CUstream handle, Node node) {
  if (!streams.has(handle)) return misuse("work on a stream that does not exist");
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (stream->capture == nullptr) {
    push(stream->queue, {.node = std::make_shared<Node>(std::move(node))});
    return CUDA_SUCCESS;
  }
  if (!stream->capture->is_valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  node.waits_for = stream->frontier;
  auto& nodes = stream->capture->graph->nodes;
  const auto is_kernel = [&](size_t before) {
    return nodes[before]->type == CU_GRAPH_NODE_TYPE_KERNEL && !nodes[before]->work &&
           nodes[before]->exchange == nullptr;
  };
  if (node.is_programmatic && (node.waits_for.size() != 1 || !is_kernel(node.waits_for.front()))) {
    misuses.emplace_back("a programmatic launch behind what is not one kernel");
  }
  stream->frontier = {nodes.size()};
  nodes.push_back(std::make_shared<Node>(std::move(node)));
  return CUDA_SUCCESS;
}

}  // namespace reprise::device::cuda
