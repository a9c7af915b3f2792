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

/// A persistent team of threads that run one task together. The thread that calls run() is member 0.
///
/// Fork and join are counters on cache lines of their own: a waiting member spins for a bounded
/// time, then gives its core away (sched_yield while a task runs, a futex otherwise), so a core that
/// another process wants is never held. Nothing allocates after construction.
///
/// Thread-safe: runs of different threads follow one another. A task must not call run().
///
/// Floating point: tasks always see round-to-nearest with denormals kept, whatever the calling
/// thread or the embedding program has set, so that no bit depends on who runs a block.
class WorkerTeam {
 public:
  struct Options {
    int num_workers = 1;
    /// Core of each worker but the first, which is the caller's thread and stays as it is. Empty =
    /// not pinned.
    std::vector<int> cores;
    int spin_us = 50;
  };

  /// One worker's view of one run.
  class Member {
   public:
    [[nodiscard]] int index() const noexcept { return index_; }

    /// This worker's contiguous part of a grid. Depends only on the grid and the team, so data
    /// that a worker wrote is read by the same worker in the next launch of that grid.
    [[nodiscard]] BlockRange share(uint32_t num_blocks) const noexcept {
      return {scaled(num_blocks, first_), scaled(num_blocks, last_)};
    }

    /// Says that this worker is done with everything before barrier `number` (1, 2, ... in a run;
    /// numbers may be skipped).
    void arrive(uint32_t number) noexcept;
    /// Blocks until every worker has arrived there. \pre arrive(number) or a higher one. A worker
    /// with nothing to do after a barrier may skip it, except for worker 0, which never may.
    void wait(uint32_t number) noexcept;

   private:
    friend class WorkerTeam;
    Member(WorkerTeam& team, int index, uint32_t base) noexcept;
    // ceil(num_blocks * fraction), so that the lowest workers get blocks first.
    static uint32_t scaled(uint32_t num_blocks, uint64_t fraction) noexcept {
      return static_cast<uint32_t>((num_blocks * fraction + 0xFFFFFFFFu) >> 32);
    }

    WorkerTeam* team_;
    int index_;
    uint32_t base_;
    uint64_t first_;  // fractions of the grid in 1/2^32
    uint64_t last_;
  };

  using Task = void (*)(const void* context, Member& member) noexcept;

  /// \throws DeviceError when a thread cannot be started
  explicit WorkerTeam(const Options& options);
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  [[nodiscard]] int num_workers() const noexcept { return num_workers_; }

  /// Every worker runs `task` once; returns when all have. `num_barriers`: the highest barrier
  /// number that the task uses.
  void run(Task task, const void* context, uint32_t num_barriers = 0) noexcept;

  /// Runs `task` on the calling thread alone, as the only member.
  void run_inline(Task task, const void* context) noexcept;

 private:
  // Two lines, because x86 prefetches lines in pairs.
  static constexpr size_t kNoSharing = 128;

  struct alignas(kNoSharing) Progress {
    std::atomic<uint32_t> arrived{0};  // barriers passed since the team was made; wraps around
    std::atomic<uint32_t> sleepers{0};
  };

  struct alignas(kNoSharing) Job {
    std::atomic<uint32_t> epoch{0};
    std::atomic<uint32_t> sleepers{0};
    Task task = nullptr;  // nullptr = stop
    const void* context = nullptr;
    uint32_t base = 0;
    uint32_t num_barriers = 0;
  };

  void work(int index) noexcept;
  void publish(Task task, const void* context, uint32_t num_barriers) noexcept;
  void stop() noexcept;
  void arrive_at(int index, uint32_t target) noexcept;
  void wait_for(int index, uint32_t target) noexcept;

  int num_workers_;
  int spin_us_;
  std::vector<uint64_t> fractions_;  // worker i's share of a grid is [fractions_[i], [i + 1]) / 2^32
  Job job_;
  std::unique_ptr<Progress[]> progress_;
  uint32_t next_base_ = 0;
  std::mutex turn_;  // one run at a time; uncontended in an engine, where one thread launches
  std::vector<std::thread> threads_;
};

}  // namespace reprise::device
