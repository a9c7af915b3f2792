#include "reprise/base/line_writer.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <string_view>
#include <utility>

namespace reprise {
namespace {

constexpr std::chrono::seconds kTimeAtTheEnd{2};
// One write() call takes up to this many bytes, so that a busy log needs few calls.
constexpr size_t kMaxWriteBytes = size_t{64} << 10;

/// Returns when all bytes are written, or when the reader has closed its end.
void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      pollfd ready = {.fd = fd, .events = POLLOUT, .revents = 0};
      if (::poll(&ready, 1, -1) < 0 && errno != EINTR) return;
    } else if (written == 0 || errno != EINTR) {
      return;
    }
  }
}

std::string tell_in_plain_words(uint64_t num_lines) {
  return fmt::format("WARNING:  {} lines of this log were dropped, because it was not read.\n",
                     num_lines);
}

}  // namespace

struct LineWriter::Shared {
  void run();
  [[nodiscard]] std::string take_some();
  [[nodiscard]] bool is_idle() const { return lines.empty() && !is_writing; }

  int fd;
  size_t max_waiting_bytes;
  TellDropped tell_dropped;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;
  size_t num_waiting_bytes = 0;  // size of `lines`
  uint64_t num_dropped = 0;
  uint64_t num_dropped_told = 0;
  bool is_writing = false;
  bool is_ending = false;
};

/// \pre the mutex is held
std::string LineWriter::Shared::take_some() {
  std::string text;
  while (!lines.empty() && (text.empty() || text.size() + lines.front().size() <= kMaxWriteBytes)) {
    text += lines.front();
    num_waiting_bytes -= lines.front().size();
    lines.pop_front();
  }
  if (lines.empty() && num_dropped > num_dropped_told) {
    text += tell_dropped(num_dropped - std::exchange(num_dropped_told, num_dropped));
  }
  return text;
}

void LineWriter::Shared::run() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return !lines.empty() || is_ending; });
    if (lines.empty()) return;
    const std::string text = take_some();
    is_writing = true;
    lock.unlock();
    write_all(fd, text);
    lock.lock();
    is_writing = false;
    changed.notify_all();
  }
}

LineWriter::LineWriter(int fd, size_t max_waiting_bytes, TellDropped tell_dropped)
    : shared_(std::make_shared<Shared>()) {
  shared_->fd = fd;
  shared_->max_waiting_bytes = max_waiting_bytes;
  shared_->tell_dropped = tell_dropped ? std::move(tell_dropped) : tell_in_plain_words;
  thread_ = std::thread([shared = shared_] {
    // The other threads handle signals. In this thread a write to a closed pipe gives an error
    // code.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    shared->run();
  });
}

LineWriter::~LineWriter() {
  const bool is_written = flush(kTimeAtTheEnd);
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->is_ending = true;
  }
  shared_->changed.notify_all();
  is_written ? thread_.join() : thread_.detach();
}

void LineWriter::write(std::string line) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->num_waiting_bytes + line.size() > shared_->max_waiting_bytes) {
      ++shared_->num_dropped;
      return;
    }
    shared_->num_waiting_bytes += line.size();
    shared_->lines.push_back(std::move(line));
  }
  shared_->changed.notify_all();
}

uint64_t LineWriter::num_dropped() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->num_dropped;
}

bool LineWriter::flush(std::chrono::milliseconds time) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, time, [this] { return shared_->is_idle(); });
}

}  // namespace reprise
