#include "reprise/parallel/rank_link.h"

#include <fmt/format.h>

#include <utility>

namespace reprise::parallel {
namespace {

using std::chrono::milliseconds;

// How often the watching thread looks for heartbeats.
constexpr milliseconds kWatchInterval{100};
// If this thread itself was stopped for longer than this, the others' heartbeats may be waiting to
// be received.
constexpr milliseconds kOwnPause{3'000};

}  // namespace

void pause_between_looks(std::chrono::steady_clock::duration waited) {
  if (waited < milliseconds(2)) {
    std::this_thread::yield();
  } else if (waited < milliseconds(200)) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
}

RankLink::RankLink(std::unique_ptr<Transport> transport, CommunicatorOptions options)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      rank_(transport_->rank()),
      size_(transport_->size()),
      peers_(static_cast<size_t>(size_)) {
  if (size_ > kMaxRanks) {
    throw InvalidArgument(fmt::format("{} ranks: at most {} can work together", size_, kMaxRanks));
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    Peer& entry = peers_[static_cast<size_t>(peer)];
    entry.heard = Clock::now();
    entry.beat_in = transport_->receive(peer, kBeatTag, &entry.received, sizeof entry.received);
  }
  if (size_ > 1) watcher_ = std::thread([this] { watch(); });
}

RankLink::~RankLink() { stop_watching(); }

void RankLink::stop_watching() {
  {
    const std::lock_guard lock(stop_mutex_);
    stops_ = true;
  }
  stop_condition_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void RankLink::finish() {
  stop_watching();
  transport_->finish();
}

void RankLink::check() const {
  if (!has_failed_) return;
  const std::lock_guard lock(failure_mutex_);
  throw RankError(failure_);
}

void RankLink::fail(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(failure_mutex_);
    if (has_failed_) return;
    failure_ = reason;
    has_failed_ = true;
  }
  // The name of the rank comes first: a broken device may take long to abort.
  if (options_.on_failure) options_.on_failure(reason);
  const std::lock_guard lock(devices_mutex_);
  for (DeviceLink* device : devices_) device->abort();
}

void RankLink::add(DeviceLink& connections) {
  const std::lock_guard lock(devices_mutex_);
  devices_.push_back(&connections);
  if (has_failed_) connections.abort();
}

void RankLink::remove(DeviceLink& connections) noexcept {
  const std::lock_guard lock(devices_mutex_);
  std::erase(devices_, &connections);
}

std::string RankLink::find_device_failure(Clock::time_point now) {
  const std::lock_guard lock(devices_mutex_);
  const Clock::rep since = waits_since_;
  const Clock::duration waited = now.time_since_epoch() - Clock::duration(since);
  if (!devices_.empty() && since != 0 && waited > options_.timeout) {
    return fmt::format(
        "rank {} waited {:.1f} s for its device in a step, and all ranks send heartbeats: the "
        "device of a rank hangs or is slow",
        rank_,
        std::chrono::duration<double>(waited).count());
  }
  for (DeviceLink* device : devices_) {
    if (std::string text = device->find_failure(); !text.empty()) return text;
  }
  return {};
}

void RankLink::fail_and_throw(const std::string& reason) {
  fail(reason);
  throw RankError(reason);
}

void RankLink::watch() {
  Clock::time_point last_look = Clock::now();
  Clock::time_point last_beat = last_look - options_.beat_interval;
  std::unique_lock lock(stop_mutex_);
  while (!stop_condition_.wait_for(lock, kWatchInterval, [this] { return stops_; })) {
    if (has_failed_) return;
    const Clock::time_point now = Clock::now();
    const bool was_stopped = now - last_look > kOwnPause;
    last_look = now;
    const bool is_time_to_send = now - last_beat >= options_.beat_interval;
    if (is_time_to_send) last_beat = now;
    try {
      exchange_beats(is_time_to_send);
    } catch (const std::exception& error) {
      fail(error.what());
      return;
    }
    if (was_stopped) {
      for (Peer& peer : peers_) peer.heard = now;
    }
    std::string text = find_silent_peer(now);
    if (text.empty()) text = find_device_failure(now);
    if (!text.empty()) {
      fail(text);
      return;
    }
  }
}

void RankLink::exchange_beats(bool is_time_to_send) {
  const std::lock_guard lock(transport_mutex_);
  if (is_time_to_send) ++beat_;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    Peer& entry = peers_[static_cast<size_t>(peer)];
    if (entry.is_sending) entry.is_sending = !transport_->test(entry.beat_out);
    if (is_time_to_send && !entry.is_sending) {
      entry.beat_out = transport_->send(peer, kBeatTag, &beat_, sizeof beat_);
      entry.is_sending = true;
    }
    while (transport_->test(entry.beat_in)) {
      entry.heard = Clock::now();
      entry.beat_in = transport_->receive(peer, kBeatTag, &entry.received, sizeof entry.received);
    }
  }
}

std::string RankLink::find_silent_peer(Clock::time_point now) const {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const Clock::duration silence = now - peers_[static_cast<size_t>(peer)].heard;
    if (silence <= options_.silence) continue;
    return fmt::format(
        "rank {} has sent no heartbeat for {:.1f} s, noticed by rank {}: it was "
        "killed or stopped, or its machine is lost",
        peer,
        std::chrono::duration<double>(silence).count(),
        rank_);
  }
  return {};
}

}  // namespace reprise::parallel
