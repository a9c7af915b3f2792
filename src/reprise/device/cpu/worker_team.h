#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "reprise/device/kernel.h"

namespace reprise::device {

/// A team of threads that run work together and live as long as the team. The thread that calls
/// run() is worker 0.
///
/// Work consists of phases with barriers between them. In each phase, each worker runs its *lane*,
/// which is a fixed share of every grid. A worker holds its lane while it makes progress. A worker
/// that waits, sleeps or has not woken up yet leaves its lane open. If worker 0 would have to wait
/// for an open lane, it runs the phase of that lane itself. So if the system takes a core away, the
/// team only loses the speed of that core. The team has to wait for a thread that is not running
/// only if the thread lost its core in the middle of a kernel. The results have the same bits
/// whichever thread runs a lane.
///
/// A waiting worker spins first, then yields, then sleeps on a futex, so that other processes can
/// use its core. Only the constructor allocates.
///
/// Thread-safe: if several threads call run(), the runs follow each other. Work must not call
/// run().
///
/// Work always runs with round-to-nearest and with denormals kept, whatever the calling thread or
/// the embedding program has set. Otherwise results would depend on which thread runs a block.
class WorkerTeam {
 public:
  struct Options {
    int num_workers = 1;
    /// The core of each worker except worker 0, which is the caller's thread and is not pinned.
    /// Empty: no worker is pinned.
    std::vector<int> cores;
    int spin_us = 50;
  };

  /// A lane's part of a grid: a contiguous range of blocks. The part depends only on the grid and
  /// the size of the team. So in the next launch with that grid, each worker reads the data that it
  /// wrote itself.
  class Share {
   public:
    Share() = default;
    Share(uint64_t first, uint64_t last) noexcept : first_(first), last_(last) {}

    [[nodiscard]] BlockRange of(uint32_t num_blocks) const noexcept {
      return {scaled(num_blocks, first_), scaled(num_blocks, last_)};
    }

   private:
    // ceil(num_blocks * fraction), so that the lowest workers get blocks first.
    static uint32_t scaled(uint32_t num_blocks, uint64_t fraction) noexcept {
      return static_cast<uint32_t>((num_blocks * fraction + 0xFFFFFFFFu) >> 32);
    }

    uint64_t first_ = 0;  // fractions of the grid in units of 1/2^32; by default the whole grid
    uint64_t last_ = uint64_t{1} << 32;
  };

  struct Work {
    /// Runs one share of one phase. Any thread may call it, so it must have no other effect.
    void (*run_phase)(const void* context, uint32_t phase, const Share& share) noexcept = nullptr;
    const void* context = nullptr;
    uint32_t num_phases = 1;
    /// For each phase, whether it is serial: only worker 0 has work in it, so the other workers
    /// need not wait for its beginning. nullptr: no phase is serial.
    const uint8_t* phase_is_serial = nullptr;

    [[nodiscard]] bool is_serial(uint32_t phase) const noexcept {
      return phase_is_serial != nullptr && phase_is_serial[phase] != 0;
    }
  };

  /// \throws DeviceError when a thread cannot be started
  explicit WorkerTeam(const Options& options);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  [[nodiscard]] int num_workers() const noexcept { return num_workers_; }

  /// Runs all lanes of all phases, and returns when they are done.
  void run(const Work& work) noexcept;

  /// Runs the work only on the calling thread, without waking or waiting for other workers.
  static void run_inline(const Work& work) noexcept;

 private:
  // Two cache lines, because x86 processors prefetch pairs of lines.
  static constexpr size_t kNoSharing = 128;

  // The state of the lane, the parity of the run and the position, in one word; see
  // worker_team.cpp.
  struct alignas(kNoSharing) Lane {
    std::atomic<uint32_t> word{0};
    std::atomic<uint32_t> bell{0};  // the futex on which this lane's worker sleeps
    Work work;  // the holder of the lane reads it; it changes only while the lane is idle
    Share share;
  };

  struct alignas(kNoSharing) Sleepers {
    std::atomic<uint32_t> count{0};
  };

  void publish(const Work& work) noexcept;
  void stop() noexcept;

  // Called by worker 0.
  void pass_barrier(const Work& work, uint32_t position) noexcept;
  void wait_for_lane(const Work& work, int index, uint32_t position) noexcept;
  void help(const Work& work, Lane& lane, uint32_t word, uint32_t position) noexcept;

  // Called by the other workers.
  void work(int index) noexcept;
  void run_lane(int index, uint32_t position) noexcept;
  void leave_lane_until_barrier(int index, uint32_t position) noexcept;
  [[nodiscard]] bool barrier_is_reached(int index, uint32_t position) const noexcept;

  void set_word(Lane& lane, uint32_t word) noexcept;
  void wake_sleepers() noexcept;
  template <typename Ready>
  bool spin(int microseconds, Ready ready) const noexcept;
  template <typename Ready>
  void sleep(Lane& lane, Ready ready) noexcept;

  int num_workers_;
  int spin_us_;
  uint32_t parity_ = 0;  // parity of the current run
  std::unique_ptr<Lane[]> lanes_;
  Sleepers sleepers_;
  // Allows one run at a time; in an engine only one thread launches, so it never waits.
  std::mutex turn_;
  std::vector<std::thread> threads_;
};

}  // namespace reprise::device
