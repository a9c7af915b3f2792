#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace reprise::server {

/// A thread for tasks that would block the I/O thread for too long. Tasks run in order, one at a
/// time, and must not throw. Tasks that have not begun when the worker is destroyed are dropped.
class Worker {
 public:
  Worker() : thread_([this](const std::stop_token& stop) { work(stop); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() = default;  // joins

  /// Thread-safe.
  void run(std::function<void()> task);

 private:
  void work(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> tasks_;
  std::jthread thread_;  // last member: the thread uses the others
};

}  // namespace reprise::server
