#include "reprise/models/part_runner.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "reprise/device/cpu/usable_cores.h"

namespace reprise::models {
namespace {

// A job that several workers share. Workers take parts one by one, so a worker whose core is also
// used by others takes fewer.
class PartQueue {
 public:
  PartQueue(int64_t num_parts, const std::function<void(int64_t)>& run_part)
      : end_(num_parts), run_part_(run_part) {}

  void run_parts() noexcept {
    for (int64_t part = next_++; part < end_; part = next_++) {
      try {
        run_part_(part);
      } catch (...) {
        keep(std::current_exception(), part);
      }
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void keep(std::exception_ptr error, int64_t part) noexcept {
    const std::lock_guard lock(mutex_);
    // Parts are given out in order, so no part below a failed one is left out.
    if (part < end_) {
      end_ = part;
      error_ = std::move(error);
    }
  }

  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> end_;  // parts from here on are left out
  const std::function<void(int64_t)>& run_part_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

struct alignas(16) RunPartsArguments {
  PartQueue* queue;
};

void run_parts(const void* args, device::BlockRange) noexcept {
  static_cast<const RunPartsArguments*>(args)->queue->run_parts();
}

/// The calling thread takes part. More threads than 16 would not read files faster.
void run_on_threads(PartQueue& queue, int64_t num_parts) {
  constexpr int64_t kMostThreads = 16;
  const auto num_cores = static_cast<int64_t>(device::usable_cores().size());
  const int64_t num_threads = std::min({num_parts, num_cores, kMostThreads});
  std::vector<std::jthread> helpers;
  try {
    while (static_cast<int64_t>(helpers.size()) + 1 < num_threads) {
      helpers.emplace_back([&queue] { queue.run_parts(); });
    }
  } catch (const std::system_error&) {
    // The system allows no more threads, so there are fewer.
  }
  queue.run_parts();
}

constexpr device::Kernel kRunParts = {.name = "run_parts", .cpu = run_parts};

}  // namespace

void PartRunner::run(int64_t num_parts, const std::function<void(int64_t)>& run_part) {
  PartQueue queue(num_parts, run_part);
  if (num_parts > 1 && !stream_->device().is_host_accessible()) {
    run_on_threads(queue, num_parts);
  } else if (num_parts > 1) {
    const RunPartsArguments arguments{&queue};
    // A worker gets at least one block if there are as many blocks as workers.
    constexpr int64_t kMostBlocks = 1024;
    stream_->launch({.kernel = &kRunParts,
                     .num_blocks = static_cast<uint32_t>(std::min(num_parts, kMostBlocks)),
                     .args = std::as_bytes(std::span(&arguments, 1)),
                     .uses = {}});
    stream_->synchronize();
  } else {
    queue.run_parts();
  }
  queue.rethrow();
}

}  // namespace reprise::models
