#include "reprise/kv_cache/transfer/kv_loop.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::kv_cache {
namespace {

using Clock = KvExchange::Clock;

constexpr std::chrono::milliseconds kMoment{10};
constexpr std::chrono::milliseconds kLongestWait{60'000};
constexpr const char* kStopping = "the server is shutting down";

int make_wake_descriptor() {
  const int descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (descriptor < 0) {
    throw Error(fmt::format("eventfd: {}", std::generic_category().message(errno)));
  }
  return descriptor;
}

int milliseconds_until(Clock::time_point end) {
  const Clock::time_point now = Clock::now();
  if (end <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - now);
  return static_cast<int>(std::min(left, kLongestWait).count());
}

}  // namespace

KvLoop::KvLoop() : wake_descriptor_(make_wake_descriptor()), thread_([this] { run(); }) {}

KvLoop::~KvLoop() {
  if (thread_.joinable()) stop();
  close(wake_descriptor_);
}

void KvLoop::add(std::unique_ptr<KvExchange> exchange) {
  {
    const std::lock_guard lock(mutex_);
    if (!stops_) {
      added_.push_back(std::move(exchange));
      wake();
      return;
    }
  }
  exchange->fail(kStopping);
}

void KvLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    wake();
  }
  thread_.join();
}

void KvLoop::wake() const noexcept {
  const uint64_t one = 1;
  // A full counter wakes the thread too.
  [[maybe_unused]] const ssize_t written = write(wake_descriptor_, &one, sizeof(one));
}

bool KvLoop::take_added() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(wake_descriptor_, &count, sizeof(count));
  std::vector<std::unique_ptr<KvExchange>> added;
  {
    const std::lock_guard lock(mutex_);
    added.swap(added_);
    if (stops_) {
      std::ranges::move(added, std::back_inserter(exchanges_));
      return false;
    }
  }
  // New exchanges do all that they can do without waiting.
  for (auto& exchange : added) drive(exchange, false);
  std::erase(added, nullptr);
  std::ranges::move(added, std::back_inserter(exchanges_));
  return true;
}

void KvLoop::run() {
  while (take_added()) wait_and_advance();
  for (const auto& exchange : exchanges_) exchange->fail(kStopping);
  exchanges_.clear();
}

void KvLoop::wait_and_advance() {
  std::vector<pollfd> polled = {{.fd = wake_descriptor_, .events = POLLIN, .revents = 0}};
  std::vector<Clock::time_point> ends;
  Clock::time_point first_end = Clock::time_point::max();
  const Clock::time_point soon = Clock::now() + kMoment;
  for (const auto& exchange : exchanges_) {
    const KvExchange::AwaitedEvent awaited = exchange->awaited_event();
    polled.push_back({.fd = awaited.descriptor, .events = awaited.events, .revents = 0});
    ends.push_back(awaited.deadline);
    first_end =
        std::min({first_end, awaited.deadline, awaited.events == 0 ? soon : awaited.deadline});
  }
  if (poll(polled.data(), polled.size(), milliseconds_until(first_end)) < 0 && errno != EINTR) {
    std::this_thread::sleep_for(kMoment);  // the system has no memory for this call now
  }
  const Clock::time_point now = Clock::now();
  for (size_t i = 0; i < exchanges_.size(); ++i) {
    const bool is_late = now >= ends[i];
    const pollfd& answer = polled[i + 1];
    if (is_late || answer.revents != 0 || answer.events == 0) drive(exchanges_[i], is_late);
  }
  std::erase(exchanges_, nullptr);
}

/// Drives the exchange one step, and destroys it when it is over.
void KvLoop::drive(std::unique_ptr<KvExchange>& exchange, bool is_late) {
  try {
    if (is_late) {
      exchange->fail("the other side was silent or slow for too long");
    } else if (exchange->advance()) {
      return;
    }
  } catch (const std::exception& error) {
    exchange->fail(error.what());
  }
  exchange.reset();
}

}  // namespace reprise::kv_cache
