#include "reprise/structured_output/thread_clock.h"

#include <pthread.h>

namespace reprise::structured_output {
namespace {

std::chrono::nanoseconds time_on_processors(clockid_t clock) {
  timespec time{};
  (void)::clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

ThreadClock ThreadClock::of_this_thread() {
  ThreadClock result;
  clockid_t clock{};
  if (::pthread_getcpuclockid(::pthread_self(), &clock) == 0) {
    result.clock_ = clock;
    result.begin_ = time_on_processors(clock);
  }
  return result;
}

std::chrono::nanoseconds ThreadClock::elapsed() const {
  return clock_ ? time_on_processors(*clock_) - begin_ : std::chrono::nanoseconds(0);
}

}  // namespace reprise::structured_output
