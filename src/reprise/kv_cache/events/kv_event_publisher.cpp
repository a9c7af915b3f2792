#include "reprise/kv_cache/events/kv_event_publisher.h"

#include <chrono>
#include <optional>
#include <utility>

namespace reprise::kv_cache {
namespace {

// The publisher checks for replay requests this often, as in vLLM.
constexpr std::chrono::milliseconds kReplayInterval{100};
constexpr std::chrono::seconds kTimeToEnd{1};

}  // namespace

KvEventPublisher::KvEventPublisher(const KvEventsConfig& config,
                                   std::unique_ptr<EventSockets> sockets,
                                   size_t max_replay_bytes)
    : buffer_steps_(static_cast<size_t>(config.buffer_steps)),
      max_queue_size_(static_cast<size_t>(config.max_queue_size)),
      max_replay_bytes_(max_replay_bytes),
      sockets_(std::move(sockets)),
      thread_([this] { run(); }) {}

KvEventPublisher::~KvEventPublisher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void KvEventPublisher::publish(std::string payload) {
  {
    const std::lock_guard lock(mutex_);
    const uint64_t number = next_number_++;
    if (queue_.size() >= max_queue_size_) {
      ++num_dropped_;
      return;
    }
    queue_.push_back({.number = number, .payload = std::move(payload)});
  }
  wake_.notify_one();
}

void KvEventPublisher::run() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point next_replay = Clock::now();
  Clock::time_point end = Clock::time_point::max();
  for (;;) {
    std::optional<Entry> next;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kReplayInterval, [this] { return stop_ || !queue_.empty(); });
      if (stop_ && end == Clock::time_point::max()) end = Clock::now() + kTimeToEnd;
      if (stop_ && (queue_.empty() || Clock::now() >= end)) return;
      if (!queue_.empty()) {
        next = std::move(queue_.front());
        queue_.pop_front();
      }
    }
    if (next) send(std::move(*next));
    if (Clock::now() < next_replay) continue;
    next_replay = Clock::now() + kReplayInterval;
    sockets_->answer_replays([this](uint64_t from, const auto& give) { enumerate(from, give); });
  }
}

void KvEventPublisher::send(Entry entry) {
  const EventDelivery delivery = sockets_->send({.number = entry.number, .payload = entry.payload});
  ++(delivery == EventDelivery::dropped ? num_dropped_ : num_sent_);
  if (delivery == EventDelivery::missed_by_some) ++num_missed_;
  keep(std::move(entry));
}

void KvEventPublisher::keep(Entry entry) {
  kept_bytes_ += entry.payload.size();
  kept_.push_back(std::move(entry));
  while (!kept_.empty() && (kept_.size() > buffer_steps_ || kept_bytes_ > max_replay_bytes_)) {
    kept_bytes_ -= kept_.front().payload.size();
    kept_.pop_front();
  }
}

void KvEventPublisher::enumerate(uint64_t from,
                                 const std::function<bool(const NumberedPayload&)>& give) const {
  for (const Entry& entry : kept_) {
    if (entry.number < from) continue;
    if (!give({.number = entry.number, .payload = entry.payload})) return;
  }
}

}  // namespace reprise::kv_cache
