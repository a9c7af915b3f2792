#include "reprise/python/output_queue.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::python {

OutputQueue::OutputQueue() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (event_ < 0)
    throw Error(std::string("eventfd for the answers of the engine: ") + std::strerror(errno));
}

OutputQueue::~OutputQueue() { ::close(event_); }

void OutputQueue::put(engine::OutputDelta output) {
  const std::lock_guard lock(mutex_);
  outputs_.push_back(std::move(output));
  if (outputs_.size() > 1) return;
  const uint64_t one = 1;
  // The write cannot block or overflow, because the counter is 0.
  [[maybe_unused]] const auto written = ::write(event_, &one, sizeof one);
}

std::vector<engine::OutputDelta> OutputQueue::take(std::chrono::milliseconds patience) {
  pollfd waited{.fd = event_, .events = POLLIN, .revents = 0};
  ::poll(&waited, 1, static_cast<int>(patience.count()));
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  [[maybe_unused]] const auto was_empty = ::read(event_, &count, sizeof count);
  return std::exchange(outputs_, {});
}

}  // namespace reprise::python
