#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "reprise/kv_cache/events/event_sockets.h"
#include "reprise/kv_cache/events/kv_events_config.h"

namespace reprise::kv_cache {

/// Sends payloads to subscribers on a thread of its own. publish() never waits for a subscriber or
/// for the network: if the queue is full, a payload is dropped and counted. Payloads are numbered
/// from 0 in the order of publish(), dropped ones too, so that subscribers notice the gap.
class KvEventPublisher {
 public:
  /// The largest total size of the payloads that are kept for replays; buffer_steps limits their
  /// number.
  static constexpr size_t kMaxReplayBytes = size_t{256} << 20;

  /// Uses buffer_steps and max_queue_size of the config.
  KvEventPublisher(const KvEventsConfig& config,
                   std::unique_ptr<EventSockets> sockets,
                   size_t max_replay_bytes = kMaxReplayBytes);
  KvEventPublisher(const KvEventPublisher&) = delete;
  KvEventPublisher& operator=(const KvEventPublisher&) = delete;
  /// Sends what is queued, if that takes at most one second.
  ~KvEventPublisher();

  /// Any thread, also several.
  void publish(std::string payload);

  /// The number of payloads sent since the start; any thread.
  [[nodiscard]] uint64_t num_sent() const noexcept { return num_sent_; }
  [[nodiscard]] uint64_t num_dropped() const noexcept { return num_dropped_; }
  /// Payloads that were sent, but that at least one subscriber was too slow to get.
  [[nodiscard]] uint64_t num_missed() const noexcept { return num_missed_; }

 private:
  struct Entry {
    uint64_t number = 0;
    std::string payload;
  };

  void run();
  void send(Entry entry);
  void keep(Entry entry);
  void enumerate(uint64_t from, const std::function<bool(const NumberedPayload&)>& give) const;

  size_t buffer_steps_;
  size_t max_queue_size_;
  size_t max_replay_bytes_;
  std::unique_ptr<EventSockets> sockets_;  // used by the thread
  std::deque<Entry> kept_;                 // for replays; used by the thread
  size_t kept_bytes_ = 0;
  std::atomic<uint64_t> num_sent_ = 0;
  std::atomic<uint64_t> num_dropped_ = 0;
  std::atomic<uint64_t> num_missed_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Entry> queue_;  // guarded by mutex_, as the next two
  uint64_t next_number_ = 0;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the other members
};

}  // namespace reprise::kv_cache
