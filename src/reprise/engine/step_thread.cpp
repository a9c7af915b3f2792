#include "reprise/engine/step_thread.h"

#include "reprise/base/assert.h"
#include "reprise/runner/model_step.h"

namespace reprise::engine {

StepThread::StepThread(runner::StepComputer& computer)
    : computer_(&computer), thread_([this] { run(); }) {}

StepThread::~StepThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  submitted_.notify_one();
  thread_.join();
}

void StepThread::submit(runner::ModelStep& step) {
  {
    const std::lock_guard lock(mutex_);
    REPRISE_ASSERT(num_submitted_ - num_waited_for_ < steps_.size(),
                   "more steps are submitted than the thread can keep");
    steps_[num_submitted_++ % steps_.size()] = &step;
  }
  submitted_.notify_one();
}

void StepThread::wait() {
  std::unique_lock lock(mutex_);
  REPRISE_ASSERT(num_waited_for_ < num_submitted_, "wait() without a submitted step");
  computed_.wait(lock, [this] { return num_computed_ > num_waited_for_; });
  ++num_waited_for_;
}

void StepThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    submitted_.wait(lock, [this] { return stop_ || num_computed_ < num_submitted_; });
    if (stop_) return;
    runner::ModelStep& step = *steps_[num_computed_ % steps_.size()];
    lock.unlock();
    computer_->compute(step);
    lock.lock();
    ++num_computed_;
    computed_.notify_one();
  }
}

}  // namespace reprise::engine
