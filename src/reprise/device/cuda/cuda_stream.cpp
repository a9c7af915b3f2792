#include "reprise/device/cuda/cuda_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/device/cuda/cuda_device_impl.h"
#include "reprise/device/cuda/cuda_graph.h"

namespace reprise::device::cuda {
namespace {

CUdeviceptr address(const void* data) noexcept { return reinterpret_cast<CUdeviceptr>(data); }

bool ranges_overlap(const void* a, const void* b, size_t bytes) noexcept {
  return address(a) < address(b) + bytes && address(b) < address(a) + bytes;
}

}  // namespace

CudaEvent::CudaEvent(CudaDevice& device) : device_(&device) {
  const Driver& driver = device.driver();
  driver.check(driver.bound().event_create(&handle_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

CudaEvent::~CudaEvent() { (void)device_->driver().bound_noexcept().event_destroy(handle_); }

bool CudaEvent::is_complete() const {
  require_host_state("Event::is_complete");
  const Driver& driver = device_->driver();
  const CUresult result = driver.bound().event_query(handle_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  driver.check(result, "cuEventQuery");
  return true;
}

void CudaEvent::synchronize() const {
  require_host_state("Event::synchronize");
  const Driver& driver = device_->driver();
  driver.check(driver.bound().event_synchronize(handle_), "cuEventSynchronize");
}

void CudaEvent::require_host_state(const char* call) const {
  device_->forbid_while_capturing(call, "the host cannot see the progress of recorded work");
  if (is_captured_.load(std::memory_order_acquire)) {
    throw CaptureError(fmt::format(
        "cuda: {} of an event that was last recorded in a capture; it has no state on the host",
        call));
  }
}

CudaStream::CudaStream(CudaDevice& device) : device_(&device), staging_(device.driver()) {
  const Driver& driver = device.driver();
  driver.check(driver.bound().stream_create(&handle_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  device.streams().add(handle_);
}

CudaStream::~CudaStream() {
  abort_capture();
  const DriverApi& api = device_->driver().bound_noexcept();
  if (handle_ == nullptr) return;
  const RelaxedCaptureScope allowed(api);
  (void)api.stream_synchronize(handle_);  // the staging memory may still be read
  device_->streams().remove(handle_);
  (void)api.stream_destroy(handle_);
}

Device& CudaStream::device() const noexcept { return *device_; }

void CudaStream::launch(const Launch& launch) {
  require_launchable(launch);
  if (launch.num_blocks == 0) return;
  if (capture_ != nullptr) capture_->require_valid();
  const DriverApi& api = device_->driver().bound();
  const CudaKernelCode& code = launch.kernel->cuda;
  const LoadedFunction& function = device_->code().function_of(*launch.kernel);
  // A kernel has only one parameter. The driver copies as many bytes as the kernel declares.
  std::array<void*, 1> parameters{const_cast<std::byte*>(launch.args.data())};
  const bool waits_itself = CudaDevice::waits_itself(*launch.kernel, function);
  const bool is_early =
      waits_itself && follows_waiting_kernel_ && device_->begins_early(*launch.kernel);
  CUlaunchAttribute programmatic{};
  programmatic.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  programmatic.value.programmaticStreamSerializationAllowed = 1;
  const CUlaunchConfig config{.gridDimX = launch.num_blocks,
                              .gridDimY = 1,
                              .gridDimZ = 1,
                              .blockDimX = code.threads_per_block,
                              .blockDimY = 1,
                              .blockDimZ = 1,
                              .sharedMemBytes = code.shared_bytes,
                              .hStream = handle_,
                              .attrs = &programmatic,
                              .numAttrs = is_early ? 1U : 0U};
  const CUresult result = api.launch_kernel(&config, function.handle, parameters.data(), nullptr);
  finish_submission(result, launch.kernel->name);
  if (capture_ != nullptr) {
    capture_->launches().add(launch.kernel->name, launch.num_blocks, launch.args, launch.uses);
  }
  follows_waiting_kernel_ = waits_itself;
  last_.began_early = is_early;
  last_.uses.assign(launch.uses.begin(), launch.uses.end());
}

bool CudaStream::is_settled_early(const void* data, size_t bytes) const noexcept {
  if (!follows_waiting_kernel_) return true;  // the next kernel begins after the end of all others
  const auto* begin = static_cast<const std::byte*>(data);
  return !last_.began_early && std::ranges::none_of(last_.uses, [&](const BufferUse& use) {
    const auto* written = static_cast<const std::byte*>(use.data);
    return use.writes() && written < begin + bytes && begin < written + use.bytes;
  });
}

void CudaStream::copy(void* destination, const void* source, size_t bytes) {
  REPRISE_ASSERT(bytes == 0 || !ranges_overlap(destination, source, bytes),
                 "copy of {} bytes from {} to {}: the ranges overlap",
                 bytes,
                 source,
                 destination);
  require_handle();
  if (capture_ != nullptr) capture_->require_valid();
  if (bytes == 0) return;
  const DriverApi& api = device_->driver().bound();
  finish_submission(api.memcpy_dtod_async(address(destination), address(source), bytes, handle_),
                    "copy");
  if (capture_ == nullptr) return;
  const std::array args{address(destination), address(source), CUdeviceptr{bytes}};
  const std::array uses{BufferUse{source, bytes, BufferUse::Access::read},
                        BufferUse{destination, bytes, BufferUse::Access::write}};
  capture_->launches().add("copy", 1, std::as_bytes(std::span(args)), uses);
}

void CudaStream::fill(void* destination, std::byte value, size_t bytes) {
  require_handle();
  if (capture_ != nullptr) capture_->require_valid();
  if (bytes == 0) return;
  const DriverApi& api = device_->driver().bound();
  finish_submission(
      api.memset_d8_async(
          address(destination), std::to_integer<unsigned char>(value), bytes, handle_),
      "fill");
  if (capture_ == nullptr) return;
  const std::array args{
      address(destination), CUdeviceptr{bytes}, std::to_integer<CUdeviceptr>(value)};
  const std::array uses{BufferUse{destination, bytes, BufferUse::Access::write}};
  capture_->launches().add("fill", 1, std::as_bytes(std::span(args)), uses);
}

CUstream CudaStream::begin_library() const {
  require_handle();
  if (capture_ != nullptr) capture_->require_valid();
  (void)device_->driver().bound();
  return handle_;
}

CUstream CudaStream::handle() const {
  require_handle();
  forbid_while_capturing("a timer", "time the launch of the graph");
  return handle_;
}

void CudaStream::finish_library(const char* name,
                                std::span<const BufferUse> uses,
                                const char* failure) {
  if (failure != nullptr) fail_library(name, failure);
  finish_submission(CUDA_SUCCESS, name);
  if (capture_ != nullptr) capture_->launches().add_library(uses);
}

void CudaStream::fail_library(const char* name, const char* failure) {
  const std::string message = fmt::format("{}: {}: {}", device_->name(), name, failure);
  if (capture_ != nullptr) capture_->invalidate(message);
  device_->driver().require_context();
  if (capture_ != nullptr) capture_->fail(message);
  throw DeviceError(message);
}

void CudaStream::launch(CUgraphExec exec) {
  require_handle();
  forbid_while_capturing("a graph launch", "launch its kernels instead, graphs do not nest");
  const Driver& driver = device_->driver();
  follows_waiting_kernel_ = false;
  driver.check(driver.bound().graph_launch(exec, handle_), "cuGraphLaunch");
  ++counters_.graph_launches;
}

void CudaStream::finish_submission(CUresult result, const char* call) {
  follows_waiting_kernel_ = false;
  if (result != CUDA_SUCCESS) {
    if (capture_ != nullptr) capture_->invalidate(device_->driver().describe(result, call));
    device_->driver().check(result, call);
  }
  ++(capture_ != nullptr ? counters_.captured_launches : counters_.kernel_launches);
}

void CudaStream::copy_from_host(void* destination, const void* source, size_t bytes) {
  require_handle();
  forbid_wait_while_capturing("copy_from_host", "write persistent buffers before the launch");
  follows_waiting_kernel_ = false;
  staging_.upload(address(destination), static_cast<const std::byte*>(source), bytes, handle_);
}

void CudaStream::copy_to_host(void* destination, const void* source, size_t bytes) {
  require_handle();
  forbid_wait_while_capturing("copy_to_host", "read results after the launch of the graph");
  follows_waiting_kernel_ = false;
  staging_.download(static_cast<std::byte*>(destination), address(source), bytes, handle_);
}

void CudaStream::record(Event& event) {
  require_handle();
  auto& cuda_event = dynamic_cast<CudaEvent&>(event);
  if (capture_ != nullptr) capture_->require_valid();
  follows_waiting_kernel_ = false;
  const Driver& driver = device_->driver();
  const CUresult result = driver.bound().event_record(cuda_event.handle_, handle_);
  if (result != CUDA_SUCCESS && capture_ != nullptr) {
    capture_->invalidate(driver.describe(result, "cuEventRecord"));
  }
  driver.check(result, "cuEventRecord");
  cuda_event.capture_ = capture_;
  cuda_event.is_captured_.store(capture_ != nullptr, std::memory_order_release);
}

void CudaStream::wait(const Event& event) {
  require_handle();
  const auto& cuda_event = dynamic_cast<const CudaEvent&>(event);
  if (capture_ != nullptr) capture_->require_valid();
  follows_waiting_kernel_ = false;
  std::shared_ptr<Capture> theirs;
  if (cuda_event.is_captured_.load(std::memory_order_acquire)) {
    theirs = cuda_event.capture_.lock();
    if (theirs == nullptr || !theirs->is_open()) {
      const std::string reason =
          "cuda: a wait for an event that was recorded in a capture that has ended";
      if (capture_ != nullptr) capture_->fail(reason);
      throw CaptureError(reason);
    }
    theirs->require_valid();
    if (capture_ != nullptr && capture_ != theirs) {
      theirs->invalidate("cuda: a stream of another capture waited for an event of this one");
      capture_->fail("cuda: a wait for an event of another capture; captures cannot be merged");
    }
  } else {
    forbid_while_capturing("a wait for an event from outside the capture",
                           "order the work before begin_capture instead");
  }
  const Driver& driver = device_->driver();
  const CUresult result = driver.bound().stream_wait_event(handle_, cuda_event.handle_, 0);
  if (result != CUDA_SUCCESS && theirs != nullptr) {
    theirs->invalidate(driver.describe(result, "cuStreamWaitEvent"));
  }
  driver.check(result, "cuStreamWaitEvent");
  if (theirs != nullptr && capture_ == nullptr) {
    theirs->join(*this);
    capture_ = theirs;
  }
}

void CudaStream::synchronize() {
  require_handle();
  forbid_wait_while_capturing("synchronize", "synchronize after the launch of the graph");
  const Driver& driver = device_->driver();
  driver.check(driver.bound().stream_synchronize(handle_), "cuStreamSynchronize");
}

void CudaStream::begin_capture() {
  require_handle();
  forbid_while_capturing("begin_capture", "captures do not nest");
  follows_waiting_kernel_ = false;
  std::shared_ptr<Capture> capture = device_->open_capture(*this);
  const Driver& driver = device_->driver();
  try {
    driver.check(driver.bound().stream_begin_capture(handle_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                 "cuStreamBeginCapture");
  } catch (...) {
    device_->close_capture(*capture);
    throw;
  }
  capture_ = std::move(capture);
}

std::unique_ptr<Graph> CudaStream::end_capture() {
  if (capture_ == nullptr) {
    throw CaptureError("cuda: end_capture on a stream that is not capturing");
  }
  const std::shared_ptr<Capture> capture = capture_;
  if (!capture->is_origin(*this)) {
    capture->fail("cuda: end_capture on a stream that joined the capture; end it where it began");
  }
  if (!capture->belongs_to(std::this_thread::get_id())) {
    abort_capture();
    capture->fail("cuda: end_capture on another thread than begin_capture");
  }
  return take_graph();
}

std::unique_ptr<Graph> CudaStream::take_graph() {
  const std::shared_ptr<Capture> capture = capture_;
  const Driver& driver = device_->driver();
  const DriverApi& api = driver.bound_noexcept();
  CUgraph handle = nullptr;
  const CUresult result = api.stream_end_capture(handle_, &handle);
  device_->close_capture(*capture);
  try {
    if (!is_sticky(result)) capture->require_valid();
    driver.check(result, "cuStreamEndCapture");
    return std::make_unique<CudaGraph>(*device_, handle, std::move(capture->launches()));
  } catch (...) {
    if (handle != nullptr) (void)api.graph_destroy(handle);
    throw;
  }
}

void CudaStream::abort_capture() noexcept {
  if (capture_ == nullptr) return;
  const std::shared_ptr<Capture> capture = capture_;
  if (!capture->is_origin(*this)) {
    capture->leave(*this, handle_);
    leave_capture();
    replace_handle();
    return;
  }
  if (capture->belongs_to(std::this_thread::get_id())) {
    const DriverApi& api = device_->driver().bound_noexcept();
    CUgraph graph = nullptr;
    (void)api.stream_end_capture(handle_, &graph);
    if (graph != nullptr) (void)api.graph_destroy(graph);
  } else {
    device_->abandon(handle_);
    replace_handle();
  }
  device_->close_capture(*capture);
}

void CudaStream::replace_handle() noexcept {
  const DriverApi& api = device_->driver().bound_noexcept();
  const RelaxedCaptureScope allowed(api);
  device_->streams().remove(handle_);
  handle_ = nullptr;
  if (api.stream_create(&handle_, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
    handle_ = nullptr;
    return;
  }
  device_->streams().add(handle_);
}

void CudaStream::require_handle() const {
  if (handle_ == nullptr) [[unlikely]] {
    throw DeviceError("cuda: this stream was lost with a capture that could not be ended");
  }
}

void CudaStream::forbid_while_capturing(const char* call, const char* advice) const {
  if (capture_ == nullptr) return;
  capture_->require_valid();
  capture_->fail(fmt::format("cuda: {} while the stream captures; {}", call, advice));
}

void CudaStream::forbid_wait_while_capturing(const char* call, const char* advice) const {
  forbid_while_capturing(call, advice);
  device_->forbid_while_capturing(call, advice);
}

void CudaStream::require_launchable(const Launch& launch) const {
  require_handle();
  const bool has_code = launch.kernel != nullptr && launch.kernel->cuda.image != nullptr;
  if (has_code && launch.args.size() <= kMaxLaunchArgumentBytes) [[likely]]
    return;
  const char* name = launch.kernel != nullptr ? launch.kernel->name : "(no kernel)";
  const std::string reason =
      has_code
          ? fmt::format("cuda: launch of {} with {} bytes of arguments; at most {} are allowed",
                        name,
                        launch.args.size(),
                        kMaxLaunchArgumentBytes)
          : fmt::format("cuda: launch of {}, which has no CUDA code", name);
  if (capture_ != nullptr) capture_->fail(reason);
  throw DeviceError(reason);
}

}  // namespace reprise::device::cuda
