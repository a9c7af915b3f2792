#include "reprise/device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "reprise/device/cuda/cuda_device_impl.h"
#include "reprise/device/cuda/cuda_graph.h"
#include "reprise/device/cuda/cuda_stream.h"
#include "reprise/device/cuda/growing_range.h"

namespace reprise::device::cuda {

std::unique_ptr<Device> create_cuda_device(const DriverApi& api, const CudaDeviceOptions& options) {
  return std::make_unique<CudaDevice>(api, options);
}

CudaDevice::CudaDevice(const DriverApi& api, const CudaDeviceOptions& options)
    : driver_(api, options.device_index), memory_(driver_, streams_), code_(driver_, streams_) {
  set_programmatic_launch(options.programmatic_launch);
}

void CudaDevice::set_programmatic_launch(bool is_on) {
  // Only code for capability 9 always contains the wait for the previous kernel. Code for other
  // GPUs may be compiled without it, because older GPUs do not support it.
  has_programmatic_launch_ =
      is_on && driver_.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 9;
}

CudaDevice::~CudaDevice() {
  end_abandoned();
  const DriverApi& functions = driver_.bound_noexcept();
  for (CUstream stream : abandoned_) (void)functions.stream_destroy(stream);
}

std::string CudaDevice::description() const {
  std::array<char, 256> model{};
  const DriverApi& api = driver_.bound();
  driver_.check(api.device_get_name(model.data(), static_cast<int>(model.size()), driver_.device()),
                "cuDeviceGetName");
  int version = 0;
  driver_.check(api.driver_get_version(&version), "cuDriverGetVersion");
  return fmt::format("{}, {} SMs, compute capability {}.{}, driver for CUDA {}.{}{}",
                     model.data(),
                     driver_.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
                     driver_.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                     driver_.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
                     version / 1000,
                     version % 1000 / 10,
                     has_programmatic_launch_ ? ", programmatic dependent launch" : "");
}

Buffer CudaDevice::allocate(size_t bytes) {
  end_abandoned();
  forbid_while_capturing("Device::allocate", "allocate before the capture, or from a MemoryPool");
  return Buffer(*this, memory_.acquire(bytes));
}

std::unique_ptr<MemoryPool> CudaDevice::create_pool() {
  if (!memory_.virtual_memory().is_supported()) return std::make_unique<CachingPool>(memory_);
  size_t most_bytes = 0;
  driver_.check(driver_.bound().device_total_mem(&most_bytes, driver_.device()),
                "cuDeviceTotalMem");
  return std::make_unique<CachingPool>(std::make_unique<GrowingRange>(memory_, most_bytes));
}

std::unique_ptr<Stream> CudaDevice::create_stream() { return std::make_unique<CudaStream>(*this); }

std::unique_ptr<Event> CudaDevice::create_event() { return std::make_unique<CudaEvent>(*this); }

std::unique_ptr<GraphExec> CudaDevice::instantiate(const Graph& graph) {
  const auto* cuda_graph = dynamic_cast<const CudaGraph*>(&graph);
  if (cuda_graph == nullptr) {
    throw DeviceError("cuda: cannot instantiate a graph of another device");
  }
  return std::make_unique<CudaGraphExec>(*this, *cuda_graph);
}

MemoryInfo CudaDevice::memory() const {
  MemoryInfo info{.allocated_here = memory_.allocated_bytes()};
  driver_.check(driver_.bound().mem_get_info(&info.free, &info.total), "cuMemGetInfo");
  return info;
}

void CudaDevice::free(BufferView view) noexcept {
  invalidate_capture(
      "cuda: a Buffer was destroyed during the capture: recorded work may refer to it");
  memory_.give_back(view);
}

void CudaDevice::discard(BufferView memory) noexcept {
  invalidate_capture("cuda: memory was discarded during the capture");
  memory_.discard(memory);
}

void CudaDevice::restore(BufferView memory) {
  forbid_while_capturing("DiscardableMemory::restore", "restore before the capture");
  memory_.restore(memory);
}

Buffer CudaDevice::reserve(size_t bytes) {
  forbid_while_capturing("ReservableMemory::reserve", "reserve before the capture");
  return Buffer(*this, memory_.reserve(bytes));
}

void CudaDevice::commit(BufferView buffer, size_t offset, size_t bytes) {
  forbid_while_capturing("ReservableMemory::commit", "commit before the capture");
  memory_.commit(buffer, offset, bytes);
}

void CudaDevice::invalidate_capture(const char* reason) const noexcept {
  if (Capture* capture = capture_of_this_thread(); capture != nullptr) capture->invalidate(reason);
}

std::shared_ptr<Capture> CudaDevice::open_capture(CudaStream& origin) {
  end_abandoned();
  auto capture = std::make_shared<Capture>(origin);
  const std::lock_guard lock(captures_mutex_);
  captures_.push_back(capture.get());
  return capture;
}

void CudaDevice::close_capture(Capture& capture) noexcept {
  {
    const std::lock_guard lock(captures_mutex_);
    std::erase(captures_, &capture);
  }
  for (CUstream orphan : capture.close()) {
    (void)driver_.bound_noexcept().stream_destroy(orphan);
  }
}

void CudaDevice::forbid_while_capturing(const char* call, const char* advice) const {
  if (Capture* capture = capture_of_this_thread(); capture != nullptr) {
    capture->fail(fmt::format("cuda: {} while this thread captures; {}", call, advice));
  }
}

void CudaDevice::abandon(CUstream stream) noexcept {
  const std::lock_guard lock(captures_mutex_);
  abandoned_.push_back(stream);
}

void CudaDevice::end_abandoned() noexcept {
  const std::lock_guard lock(captures_mutex_);
  if (abandoned_.empty()) return;
  const DriverApi& api = driver_.bound_noexcept();
  std::erase_if(abandoned_, [&api](CUstream stream) {
    CUgraph graph = nullptr;
    if (api.stream_end_capture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) {
      return false;
    }
    if (graph != nullptr) (void)api.graph_destroy(graph);
    (void)api.stream_destroy(stream);
    return true;
  });
}

Capture* CudaDevice::capture_of_this_thread() const noexcept {
  const std::lock_guard lock(captures_mutex_);
  const auto mine = [id = std::this_thread::get_id()](const Capture* capture) {
    return capture->belongs_to(id);
  };
  const auto found = std::ranges::find_if(captures_, mine);
  return found == captures_.end() ? nullptr : *found;
}

}  // namespace reprise::device::cuda
