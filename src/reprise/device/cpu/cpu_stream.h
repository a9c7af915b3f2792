#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "reprise/device/cpu/capture_session.h"
#include "reprise/device/device.h"
#include "reprise/device/launch_probe.h"

namespace reprise::device {

class CpuDevice;

/// Outside of captures, work is done when its launch returns, so an event never has to wait. The
/// event stores whether it was last recorded in a capture and, if so, at which point of which
/// capture.
class CpuEvent final : public Event {
 public:
  explicit CpuEvent(CpuDevice& device) noexcept : device_(&device) {}

  [[nodiscard]] bool is_complete() const override;
  void synchronize() const override;

 private:
  friend class CpuStream;
  void require_host_state(const char* call) const;

  CpuDevice* device_;  // the device that made this event
  // Atomic, because an event outside of captures may be recorded by one thread and waited for by
  // another. The capturing thread alone uses the members below.
  std::atomic<bool> is_captured_{false};
  std::weak_ptr<CaptureSession> session_;
  CaptureClock point_;
};

/// An eager launch runs on the team of workers and returns when all blocks are done. If the stream
/// captures, launches are appended to the commands of the session.
class CpuStream final : public Stream, public ProbedStream {
 public:
  explicit CpuStream(CpuDevice& device) noexcept : device_(&device) {}
  ~CpuStream() override;

  void launch(const Launch& launch) override;
  void copy(void* destination, const void* source, size_t bytes) override;
  void fill(void* destination, std::byte value, size_t bytes) override;
  void copy_from_host(void* destination, const void* source, size_t bytes) override;
  void copy_to_host(void* destination, const void* source, size_t bytes) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;
  void begin_capture() override;
  [[nodiscard]] std::unique_ptr<Graph> end_capture() override;
  void abort_capture() noexcept override;
  [[nodiscard]] bool is_capturing() const noexcept override { return session_ != nullptr; }
  [[nodiscard]] const LaunchCounters& counters() const noexcept override { return counters_; }
  [[nodiscard]] Device& device() const noexcept override;

  void set_probe(LaunchProbe* probe) noexcept override { probe_ = probe; }

  /// Submits all commands of a graph as one launch.
  void launch(const CommandBlock& block);

  /// Called by CaptureSession when the capture is over.
  void leave_capture() noexcept;
  /// For decorators that forbid further calls. \pre is_capturing()
  void invalidate_capture(const std::string& reason) { session_->invalidate(reason); }

 private:
  void require_launchable(const Launch& launch) const;
  void forbid_while_capturing(const char* call, const char* advice) const;
  /// The same for calls in which the host waits for this stream: they are also forbidden while the
  /// calling thread captures on another stream.
  void forbid_wait_while_capturing(const char* call, const char* advice) const;
  void close_session() noexcept;
  /// Runs the work, and times it if the probe asks for it.
  void run(const Launch& launch);
  void run_probed(const CommandBlock& block);
  void run_timed(const CommandBlock& block, uint32_t num_runs);

  CpuDevice* device_;                        // the device that made this stream
  std::shared_ptr<CaptureSession> session_;  // shared with joined streams; events observe it
  size_t index_in_session_ = 0;
  LaunchCounters counters_;
  LaunchProbe* probe_ = nullptr;  // owned by the caller of set_probe()
};

}  // namespace reprise::device
