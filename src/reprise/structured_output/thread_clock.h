#pragma once

#include <chrono>
#include <ctime>
#include <optional>

namespace reprise::structured_output {

/// The processor time that one thread has used since of_this_thread(). The load of the machine does
/// not change this time. Another thread may read it while the thread lives.
class ThreadClock {
 public:
  ThreadClock() = default;  // of no thread: no time passes
  [[nodiscard]] static ThreadClock of_this_thread();
  [[nodiscard]] std::chrono::nanoseconds elapsed() const;

 private:
  std::optional<clockid_t> clock_;
  std::chrono::nanoseconds begin_{0};
};

}  // namespace reprise::structured_output
