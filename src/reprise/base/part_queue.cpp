#include "reprise/base/part_queue.h"

#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace reprise {

void PartQueue::run_parts(int64_t worker) noexcept {
  for (int64_t part = next_++; part < end_; part = next_++) {
    try {
      run_part_(part, worker);
    } catch (...) {
      keep(std::current_exception(), part);
    }
  }
}

void PartQueue::run_on_threads(int64_t num_workers) {
  std::vector<std::jthread> helpers;
  for (int64_t worker = 1; worker < num_workers; ++worker) {
    try {
      helpers.emplace_back([this, worker] { run_parts(worker); });
    } catch (const std::system_error&) {
      break;  // The system allows no more threads, so there are fewer.
    }
  }
  run_parts();
}

void PartQueue::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

void PartQueue::keep(std::exception_ptr error, int64_t part) noexcept {
  const std::lock_guard lock(mutex_);
  // Parts are given out in order, so no part below a failed one is left out.
  if (part < end_) {
    end_ = part;
    error_ = std::move(error);
  }
}

}  // namespace reprise
