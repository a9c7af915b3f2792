#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <utility>

namespace reprise::structured_output {

/// The work that a call into the backend may still do. Work is counted in steps of the backend's
/// loops, not in time, so the same request fails at the same place on every machine.
struct WorkLimit {
  int64_t num_steps_left = std::numeric_limits<int64_t>::max();
  size_t max_states = std::numeric_limits<size_t>::max();  // that a matcher may keep
  /// Set by another thread to stop the work. Must outlive the limit; null: never stopped.
  const std::atomic<bool>* is_cancelled = nullptr;

  /// \throws WorkLimitReached
  void count(size_t num_steps);
};

/// The backend's loops throw this when their thread's limit is reached. The object that they worked
/// on is then in an undefined state.
class WorkLimitReached final : public std::exception {
 public:
  enum class Which : uint8_t { steps, states };
  explicit WorkLimitReached(Which which) : which_(which) {}
  [[nodiscard]] Which which() const noexcept { return which_; }
  [[nodiscard]] const char* what() const noexcept override { return "the work limit is reached"; }

 private:
  Which which_;
};

inline void WorkLimit::count(size_t num_steps) {
  num_steps_left -= static_cast<int64_t>(num_steps);
  const bool is_over = num_steps_left < 0 ||
                       (is_cancelled != nullptr && is_cancelled->load(std::memory_order_relaxed));
  if (is_over) throw WorkLimitReached(WorkLimitReached::Which::steps);
}

/// The limit of this thread in xgrammar; null: no limit. Defined in xgrammar's source
/// (cmake/Xgrammar.cmake): its loops are far below its interfaces, which have no parameter for a
/// limit.
[[nodiscard]] WorkLimit*& work_limit_of_thread() noexcept;

/// Sets the limit of this thread while the object lives. `limit` must outlive the object.
class WorkLimitScope {
 public:
  explicit WorkLimitScope(WorkLimit& limit)
      : before_(std::exchange(work_limit_of_thread(), &limit)) {}
  WorkLimitScope(const WorkLimitScope&) = delete;
  WorkLimitScope& operator=(const WorkLimitScope&) = delete;
  ~WorkLimitScope() { work_limit_of_thread() = before_; }

 private:
  WorkLimit* before_;
};

/// \throws WorkLimitReached
inline void count_work(size_t num_steps) {
  WorkLimit* const limit = work_limit_of_thread();
  if (limit == nullptr) return;
  limit->count(num_steps);
}

/// \throws WorkLimitReached
inline void check_states(size_t num_states) {
  const WorkLimit* const limit = work_limit_of_thread();
  if (limit != nullptr && num_states > limit->max_states) {
    throw WorkLimitReached(WorkLimitReached::Which::states);
  }
}

}  // namespace reprise::structured_output
