#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "reprise/scheduler/scheduler.h"

namespace reprise::engine {

class StepComputer;
struct ModelStep;

/// Computes steps on a thread of its own, in the order of their submission, so that the caller can
/// schedule the next step at the same time. Between submit() and wait() a step belongs to that
/// thread; runner, sampler and device belong to it as long as any step does. One thread submits and
/// waits.
class StepThread {
 public:
  /// `computer` must outlive this.
  explicit StepThread(StepComputer& computer);
  StepThread(const StepThread&) = delete;
  StepThread& operator=(const StepThread&) = delete;
  /// Drops steps that have not begun.
  ~StepThread();

  /// \pre fewer than Scheduler::kMaxStepsInFlight steps were submitted and not waited for
  void submit(ModelStep& step);
  /// Waits until the oldest step that was not waited for is computed.
  void wait();

 private:
  void run();

  StepComputer* computer_;
  /// Guards the members below, except the thread; never held while a step is computed.
  std::mutex mutex_;
  std::condition_variable submitted_;
  std::condition_variable computed_;
  std::array<ModelStep*, Scheduler::kMaxStepsInFlight> steps_{};  // a ring
  uint64_t num_submitted_ = 0;
  uint64_t num_computed_ = 0;
  uint64_t num_waited_for_ = 0;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all members above
};

}  // namespace reprise::engine
