#include "reprise/server/tracing/span_exporter.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeAtTheEnd{2};
constexpr std::chrono::minutes kBetweenWarnings{1};

}  // namespace

struct SpanExporter::Shared {
  Shared(SpanExporterOptions with, SendSpans send_spans, Log to_log)
      : options(std::move(with)), send(std::move(send_spans)), log(std::move(to_log)) {}

  void run();
  /// \pre `lock` holds the mutex, which is released while the batch is sent
  void send_batch(std::unique_lock<std::mutex>& lock);
  void warn(const std::string& reason, size_t num_spans);

  const SpanExporterOptions options;
  const SendSpans send;
  const Log log;
  std::optional<Clock::time_point> warned_at;  // the thread's own

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  std::deque<Span> waiting;
  SpanCounts counts;
  bool is_sending = false;
  bool is_ending = false;
  bool gives_up = false;  // the destructor no longer waits for the thread
};

void SpanExporter::Shared::run() {
  std::unique_lock lock(mutex);
  while (!gives_up) {
    changed.wait(lock, [this] { return is_ending || !waiting.empty(); });
    if (waiting.empty()) return;
    // Waits a moment for further spans, which go into the same request.
    changed.wait_for(
        lock, options.delay, [this] { return is_ending || waiting.size() >= options.max_batch; });
    send_batch(lock);
  }
}

void SpanExporter::Shared::send_batch(std::unique_lock<std::mutex>& lock) {
  const size_t size = std::min(waiting.size(), options.max_batch);
  const auto end = waiting.begin() + static_cast<ptrdiff_t>(size);
  const std::vector<Span> batch(std::make_move_iterator(waiting.begin()),
                                std::make_move_iterator(end));
  waiting.erase(waiting.begin(), end);
  is_sending = true;
  lock.unlock();
  bool is_taken = false;
  try {
    send(otlp_json(batch, options.resource));
    is_taken = true;
  } catch (const std::exception& error) {
    warn(error.what(), size);
  }
  lock.lock();
  is_sending = false;
  (is_taken ? counts.num_exported : counts.num_dropped) += size;
  changed.notify_all();
}

void SpanExporter::Shared::warn(const std::string& reason, size_t num_spans) {
  const auto now = Clock::now();
  if (warned_at && now - *warned_at < kBetweenWarnings) return;
  warned_at = now;
  log.warning(fmt::format(
      "{} trace spans were not taken by the collector and are dropped: {}", num_spans, reason));
}

SpanExporter::SpanExporter(SpanExporterOptions options, SendSpans send, Log log)
    : shared_(std::make_shared<Shared>(std::move(options), std::move(send), std::move(log))) {
  thread_ = std::thread([shared = shared_] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);  // the other threads handle signals
    shared->run();
  });
}

SpanExporter::~SpanExporter() {
  std::unique_lock lock(shared_->mutex);
  shared_->is_ending = true;
  shared_->changed.notify_all();
  const bool is_done = shared_->changed.wait_for(
      lock, kTimeAtTheEnd, [this] { return shared_->waiting.empty() && !shared_->is_sending; });
  shared_->gives_up = true;
  lock.unlock();
  is_done ? thread_.join() : thread_.detach();
}

void SpanExporter::add(Span span) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->waiting.size() >= shared_->options.max_waiting) {
      ++shared_->counts.num_dropped;
      return;
    }
    shared_->waiting.push_back(std::move(span));
  }
  shared_->changed.notify_all();
}

SpanCounts SpanExporter::counts() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->counts;
}

}  // namespace reprise::server
