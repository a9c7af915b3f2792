#include "reprise/python/output_queue.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::python {

StepOutput own(const api::AsyncOutput& output) {
  return {.request_id = static_cast<uint64_t>(output.id),
          .text = std::string(output.text),
          .token_ids = {output.token_ids.begin(), output.token_ids.end()},
          .logprobs = {output.logprobs.begin(), output.logprobs.end()},
          .prompt_logprobs = {output.prompt_logprobs.begin(), output.prompt_logprobs.end()},
          .finished = output.finished,
          .finish_reason = output.finish_reason,
          .stop_reason = output.stop_reason,
          .error = output.error};
}

OutputQueue::OutputQueue() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (event_ < 0)
    throw Error(std::string("eventfd for the answers of the engine: ") + std::strerror(errno));
}

OutputQueue::~OutputQueue() { ::close(event_); }

void OutputQueue::put(StepOutput output) {
  const std::lock_guard lock(mutex_);
  outputs_.push_back(std::move(output));
  if (outputs_.size() > 1) return;
  const uint64_t one = 1;
  // Cannot fail: the counter is 0.
  [[maybe_unused]] const auto written = ::write(event_, &one, sizeof one);
}

std::vector<StepOutput> OutputQueue::take(std::chrono::milliseconds patience) {
  pollfd waited{.fd = event_, .events = POLLIN, .revents = 0};
  ::poll(&waited, 1, static_cast<int>(patience.count()));
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  [[maybe_unused]] const auto was_empty = ::read(event_, &count, sizeof count);
  return std::exchange(outputs_, {});
}

}  // namespace reprise::python
