#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/device/cpu/capture_session.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_memory.h"
#include "reprise/device/cpu/worker_placement.h"
#include "reprise/device/cpu/worker_team.h"
#include "reprise/device/device.h"
#include "reprise/device/discardable_memory.h"
#include "reprise/device/placed_memory.h"
#include "reprise/device/reservable_memory.h"

namespace reprise::device {

class CpuStream;

/// The device that create_cpu_device() returns: one memory, one team of workers, and the list of
/// captures that have not ended.
class CpuDevice final : public Device,
                        public DiscardableMemory,
                        public PlacedMemory,
                        public ReservableMemory {
 public:
  explicit CpuDevice(const WorkerTeam::Options& options, WorkerPlacement placement = {})
      : placement_(std::move(placement)), team_(options) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "cpu"; }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] bool is_host_accessible() const noexcept override { return true; }
  [[nodiscard]] Buffer allocate(size_t bytes) override;
  [[nodiscard]] std::unique_ptr<MemoryPool> create_pool() override;
  [[nodiscard]] std::unique_ptr<Stream> create_stream() override;
  [[nodiscard]] std::unique_ptr<Event> create_event() override;
  [[nodiscard]] std::unique_ptr<GraphExec> instantiate(const Graph& graph) override;
  [[nodiscard]] MemoryInfo memory() const override { return memory_.info(); }
  void spread_over_workers(BufferView memory) noexcept override;
  [[nodiscard]] bool can_discard() const noexcept override { return true; }
  void discard(BufferView memory) noexcept override;
  void restore(BufferView memory) override;
  [[nodiscard]] bool can_reserve() const noexcept override { return CpuMemory::can_reserve(); }
  [[nodiscard]] size_t granularity() const noexcept override { return CpuMemory::granularity(); }
  [[nodiscard]] Buffer reserve(size_t bytes) override;
  void commit(BufferView buffer, size_t offset, size_t bytes) override;

  [[nodiscard]] WorkerTeam& team() noexcept { return team_; }
  [[nodiscard]] MemorySource& memory_source() noexcept { return memory_; }

  [[nodiscard]] std::shared_ptr<CaptureSession> open_capture(CpuStream& origin);
  void close_capture(CaptureSession& session) noexcept;

  /// Called by functions that are forbidden while the calling thread captures on this device. If it
  /// captures, makes the capture invalid and throws.
  /// \throws CaptureError
  void forbid_while_capturing(const char* call, const char* advice) const;

  /// The allocation of allocate() and the release of a Buffer's destructor, for decorators that
  /// create Buffers themselves.
  [[nodiscard]] BufferView acquire(size_t bytes);
  void free(BufferView view) noexcept override;

 private:
  [[nodiscard]] CaptureSession* capture_of_this_thread() const noexcept;

  CpuMemory memory_;
  WorkerPlacement placement_;
  WorkerTeam team_;
  mutable std::mutex captures_mutex_;
  std::vector<CaptureSession*> captures_;  // owned by their streams
};

}  // namespace reprise::device
