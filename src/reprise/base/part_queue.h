#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

namespace reprise {

/// A job that several workers share. Workers take parts one by one, so a worker whose core is also
/// used by others takes fewer.
class PartQueue {
 public:
  /// Called for each part by one of the workers, from several threads.
  using RunPart = std::function<void(int64_t part, int64_t worker)>;

  /// `run_part` must outlive this object.
  PartQueue(int64_t num_parts, const RunPart& run_part) : end_(num_parts), run_part_(run_part) {}

  /// Takes parts until none is left. If one throws, the parts after it may be left out.
  void run_parts(int64_t worker = 0) noexcept;
  /// The calling thread is worker 0, and new threads are the others. They are fewer if the system
  /// allows no more. Returns when all parts are done.
  void run_on_threads(int64_t num_workers);
  /// Throws the exception of the lowest part that threw, if there is one.
  void rethrow() const;

 private:
  void keep(std::exception_ptr error, int64_t part) noexcept;

  std::atomic<int64_t> next_{0};
  std::atomic<int64_t> end_;  // parts from here on are left out
  const RunPart& run_part_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace reprise
