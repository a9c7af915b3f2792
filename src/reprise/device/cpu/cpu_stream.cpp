#include "reprise/device/cpu/cpu_stream.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "reprise/base/assert.h"
#include "reprise/device/cpu/copy_kernels.h"
#include "reprise/device/cpu/cpu_device_impl.h"
#include "reprise/device/cpu/cpu_graph.h"

namespace reprise::device {
namespace {

template <typename Args>
std::span<const std::byte> bytes_of(const Args& args) noexcept {
  return std::as_bytes(std::span(&args, 1));
}

void run_launch(const void* context, uint32_t, const WorkerTeam::Share& share) noexcept {
  const Launch& launch = *static_cast<const Launch*>(context);
  const BlockRange range = share.of(launch.num_blocks);
  if (range.begin != range.end) launch.kernel->cpu(launch.args.data(), range);
}

bool ranges_overlap(const void* a, const void* b, size_t bytes) noexcept {
  const auto begin_a = reinterpret_cast<uintptr_t>(a);
  const auto begin_b = reinterpret_cast<uintptr_t>(b);
  return begin_a < begin_b + bytes && begin_b < begin_a + bytes;
}

/// The time of `num_runs` runs together. More than one run follow a run that is not timed; see
/// LaunchProbe::timed_runs().
template <typename Run>
std::chrono::nanoseconds time_of(const Run& run, uint32_t num_runs) {
  if (num_runs > 1) run();
  const auto begin = std::chrono::steady_clock::now();
  for (uint32_t i = 0; i < num_runs; ++i) run();
  return std::chrono::steady_clock::now() - begin;
}

const char* name_of(const Launch& launch) noexcept {
  return launch.kernel != nullptr ? launch.kernel->name : "(no kernel)";
}

}  // namespace

bool CpuEvent::is_complete() const {
  require_host_state("Event::is_complete");
  return true;
}

void CpuEvent::synchronize() const { require_host_state("Event::synchronize"); }

void CpuEvent::require_host_state(const char* call) const {
  device_->forbid_while_capturing(call, "the host cannot see the progress of recorded work");
  if (is_captured_.load(std::memory_order_acquire)) {
    throw CaptureError(fmt::format(
        "cpu: {} of an event that was last recorded in a capture; it has no state on the host",
        call));
  }
}

CpuStream::~CpuStream() { abort_capture(); }

Device& CpuStream::device() const noexcept { return *device_; }

void CpuStream::launch(const Launch& launch) {
  require_launchable(launch);
  if (launch.num_blocks == 0) return;
  if (session_ != nullptr) {
    session_->record(index_in_session_, launch);
    ++counters_.captured_launches;
    if (probe_ != nullptr) [[unlikely]]
      probe_->on_recorded(launch);
    return;
  }
  if (probe_ != nullptr) [[unlikely]] {
    if (!probe_->on_launch(launch)) return;
    if (const uint32_t num_runs = probe_->timed_runs(); num_runs > 0) {
      probe_->on_time(time_of([&] { run(launch); }, num_runs));
      return;
    }
  }
  run(launch);
}

void CpuStream::run(const Launch& launch) {
  ++counters_.kernel_launches;
  const WorkerTeam::Work work{.run_phase = run_launch, .context = &launch};
  if (launch.num_blocks == 1) {
    WorkerTeam::run_inline(work);
  } else {
    device_->team().run(work);
  }
}

void CpuStream::launch(const CommandBlock& block) {
  forbid_while_capturing("a graph launch", "launch its kernels instead, graphs do not nest");
  if (probe_ != nullptr) [[unlikely]]
    return run_probed(block);
  ++counters_.graph_launches;
  block.run(device_->team());
}

void CpuStream::run_probed(const CommandBlock& block) {
  const size_t num_nodes = probe_->on_graph(block.num_commands());
  const uint32_t num_runs = probe_->timed_runs();
  ++counters_.graph_launches;
  if (num_nodes < block.num_commands()) {
    const CommandBlock first = block.prefix(num_nodes);
    return num_runs > 0 ? run_timed(first, num_runs) : first.run(device_->team());
  }
  return num_runs > 0 ? run_timed(block, num_runs) : block.run(device_->team());
}

void CpuStream::run_timed(const CommandBlock& block, uint32_t num_runs) {
  if (num_runs == 1) {
    std::vector<CommandBlock::TimePoint> ends(block.num_commands());
    CommandBlock::TimePoint before = std::chrono::steady_clock::now();
    block.run_timed(device_->team(), ends);
    for (const CommandBlock::TimePoint end : ends) {
      probe_->on_time(end - std::exchange(before, end));
    }
    return;
  }
  for (size_t i = 0; i < block.num_commands(); ++i) {
    const CommandBlock node = block.only(i);
    probe_->on_time(time_of([&] { node.run(device_->team()); }, num_runs));
  }
}

void CpuStream::copy(void* destination, const void* source, size_t bytes) {
  REPRISE_ASSERT(bytes == 0 || !ranges_overlap(destination, source, bytes),
                 "copy of {} bytes from {} to {}: the ranges overlap",
                 bytes,
                 source,
                 destination);
  const CopyArgs args{
      static_cast<std::byte*>(destination), static_cast<const std::byte*>(source), bytes};
  const std::array uses{BufferUse{source, bytes, BufferUse::Access::read},
                        BufferUse{destination, bytes, BufferUse::Access::write}};
  launch(Launch{.kernel = &kCopyKernel,
                .num_blocks = num_copy_blocks(bytes),
                .args = bytes_of(args),
                .uses = uses});
}

void CpuStream::fill(void* destination, std::byte value, size_t bytes) {
  const FillArgs args{
      static_cast<std::byte*>(destination), bytes, std::to_integer<uint64_t>(value)};
  const std::array uses{BufferUse{destination, bytes, BufferUse::Access::write}};
  launch(Launch{.kernel = &kFillKernel,
                .num_blocks = num_copy_blocks(bytes),
                .args = bytes_of(args),
                .uses = uses});
}

void CpuStream::copy_from_host(void* destination, const void* source, size_t bytes) {
  forbid_wait_while_capturing("copy_from_host", "write persistent buffers before the launch");
  if (bytes != 0) std::memcpy(destination, source, bytes);
}

void CpuStream::copy_to_host(void* destination, const void* source, size_t bytes) {
  forbid_wait_while_capturing("copy_to_host", "read results after the launch of the graph");
  if (bytes != 0) std::memcpy(destination, source, bytes);
}

void CpuStream::record(Event& event) {
  auto& cpu_event = dynamic_cast<CpuEvent&>(event);
  if (session_ == nullptr) {
    cpu_event.is_captured_.store(false, std::memory_order_release);
    return;
  }
  session_->require_valid();
  cpu_event.session_ = session_;
  cpu_event.point_ = session_->clock(index_in_session_);
  cpu_event.is_captured_.store(true, std::memory_order_release);
}

void CpuStream::wait(const Event& event) {
  const auto& cpu_event = dynamic_cast<const CpuEvent&>(event);
  if (session_ != nullptr) session_->require_valid();
  if (!cpu_event.is_captured_.load(std::memory_order_acquire)) {
    // The work before the record has already finished, so an idle stream need not wait.
    forbid_while_capturing("a wait for an event from outside the capture",
                           "order the work before begin_capture instead");
    return;
  }
  const std::shared_ptr<CaptureSession> theirs = cpu_event.session_.lock();
  if (theirs == nullptr || !theirs->is_open()) {
    const std::string reason =
        "cpu: a wait for an event that was recorded in a capture that has ended";
    if (session_ != nullptr) session_->fail(reason);
    throw CaptureError(reason);
  }
  theirs->require_valid();
  if (session_ == nullptr) {
    index_in_session_ = theirs->join(*this, cpu_event.point_);
    session_ = theirs;
  } else if (session_ == theirs) {
    session_->order_after(index_in_session_, cpu_event.point_);
  } else {
    theirs->invalidate("cpu: a stream of another capture waited for an event of this one");
    session_->fail("cpu: a wait for an event of another capture; captures cannot be merged");
  }
}

void CpuStream::synchronize() {
  forbid_wait_while_capturing("synchronize", "synchronize after the launch of the graph");
}

void CpuStream::begin_capture() {
  forbid_while_capturing("begin_capture", "captures do not nest");
  session_ = device_->open_capture(*this);
  index_in_session_ = 0;
}

std::unique_ptr<Graph> CpuStream::end_capture() {
  if (session_ == nullptr) throw CaptureError("cpu: end_capture on a stream that is not capturing");
  const std::shared_ptr<CaptureSession> session = session_;
  if (!session->is_origin(*this)) {
    session->fail("cpu: end_capture on a stream that joined the capture; end it where it began");
  }
  if (!session->belongs_to(std::this_thread::get_id())) {
    session->invalidate("cpu: end_capture on another thread than begin_capture");
  }
  close_session();
  LaunchUses uses = session->take_uses();
  return std::make_unique<CpuGraph>(session->take_commands(), std::move(uses));
}

void CpuStream::abort_capture() noexcept {
  if (session_ == nullptr) return;
  if (session_->is_origin(*this)) {
    close_session();
  } else {
    session_->leave(*this);
    leave_capture();
  }
}

void CpuStream::leave_capture() noexcept { session_.reset(); }

void CpuStream::close_session() noexcept {
  const std::shared_ptr<CaptureSession> session = session_;
  device_->close_capture(*session);
  session->close();
}

void CpuStream::forbid_while_capturing(const char* call, const char* advice) const {
  if (session_ == nullptr) return;
  session_->require_valid();
  session_->fail(fmt::format("cpu: {} while the stream captures; {}", call, advice));
}

void CpuStream::forbid_wait_while_capturing(const char* call, const char* advice) const {
  forbid_while_capturing(call, advice);
  device_->forbid_while_capturing(call, advice);
}

void CpuStream::require_launchable(const Launch& launch) const {
  const bool has_code = launch.kernel != nullptr && launch.kernel->cpu != nullptr;
  if (has_code && launch.args.size() <= kMaxLaunchArgumentBytes) [[likely]]
    return;
  const std::string reason =
      has_code ? fmt::format("cpu: launch of {} with {} bytes of arguments; at most {} are allowed",
                             name_of(launch),
                             launch.args.size(),
                             kMaxLaunchArgumentBytes)
               : fmt::format("cpu: launch of {}, which has no CPU function", name_of(launch));
  if (session_ != nullptr) session_->fail(reason);
  throw DeviceError(reason);
}

}  // namespace reprise::device
