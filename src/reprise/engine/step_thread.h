#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "reprise/scheduler/scheduler.h"

namespace reprise::runner {
class StepComputer;
struct ModelStep;
}  // namespace reprise::runner

namespace reprise::engine {

/// A thread that computes steps in the order of their submission, so that the caller can schedule
/// the next step at the same time. From submit() to wait() a step belongs to this thread. While the
/// thread has a step, the runner, the sampler and the device also belong to it. submit() and wait()
/// must be called by one thread.
class StepThread {
 public:
  /// `computer` must outlive this object.
  explicit StepThread(runner::StepComputer& computer);
  StepThread(const StepThread&) = delete;
  StepThread& operator=(const StepThread&) = delete;
  /// Drops the steps whose computation has not begun.
  ~StepThread();

  /// \pre fewer than Scheduler::kMaxStepsInFlight submitted steps have not been waited for
  void submit(runner::ModelStep& step);
  /// Waits until the oldest submitted step that has not been waited for is computed.
  void wait();

 private:
  void run();

  runner::StepComputer* computer_;
  /// Guards the members below, except thread_. The thread releases it while it computes a step.
  std::mutex mutex_;
  std::condition_variable submitted_;
  std::condition_variable computed_;
  std::array<runner::ModelStep*, scheduler::Scheduler::kMaxStepsInFlight> steps_{};  // a ring
  uint64_t num_submitted_ = 0;
  uint64_t num_computed_ = 0;
  uint64_t num_waited_for_ = 0;
  bool stop_ = false;
  std::thread thread_;  // declared last, because the thread uses all members above
};

}  // namespace reprise::engine
