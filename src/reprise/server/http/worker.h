#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace reprise::server {

/// A thread for what would take the I/O thread too long. Tasks run in order, one at a time, and
/// must not throw; those that have not begun when the worker ends are dropped.
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
  std::jthread thread_;  // last: it uses the others
};

}  // namespace reprise::server
