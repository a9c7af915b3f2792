#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "reprise/base/thread_priority.h"

namespace reprise::server {

/// Threads for tasks that would block the I/O thread for too long. Tasks begin in order, as many at
/// a time as there are threads, and must not throw. Tasks that have not begun when the worker is
/// destroyed are dropped.
class Worker {
 public:
  /// `more_niceness`: see make_this_thread_patient().
  explicit Worker(int num_threads = 1, int more_niceness = 0) {
    for (int i = 0; i < num_threads; ++i) {
      threads_.emplace_back([this, more_niceness](const std::stop_token& stop) {
        make_this_thread_patient(more_niceness);
        work(stop);
      });
    }
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    for (std::jthread& thread : threads_) thread.request_stop();
    threads_.clear();  // joins
  }

  /// Thread-safe.
  void run(std::function<void()> task);

 private:
  void work(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::jthread> threads_;
};

}  // namespace reprise::server
