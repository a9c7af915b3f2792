#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/parallel/device_link.h"
#include "reprise/parallel/transport.h"

namespace reprise::parallel {

/// A rank is lost, is late, or runs another operation than the others. The engine cannot continue.
class RankError : public Error {
 public:
  using Error::Error;
};

struct CommunicatorOptions {
  /// Ranks run the same step at the same time, so one rank waits for another only briefly.
  std::chrono::milliseconds timeout{20'000};
  /// The interval at which each rank tells each other rank that it is alive.
  std::chrono::milliseconds beat_interval{1'000};
  /// A rank without a heartbeat for this long is lost. `timeout` and `silence` stay below the 30 s
  /// within which a lost rank must be named.
  std::chrono::milliseconds silence{12'000};
  /// The number of this rank among the ranks of its machine. It chooses the GPU.
  int local_rank = 0;
  /// Called once, with a sentence that names the rank, by the thread that noticed the failure. That
  /// may be a thread of the communicator.
  std::function<void(const std::string&)> on_failure;
};

/// The objects that all communicators and mailboxes of a process share: the transport, its lock,
/// the heartbeats, and the first failure. A thread sends and receives heartbeats, so a rank that
/// was killed or stopped is noticed while no operation runs.
class RankLink {
  using Clock = std::chrono::steady_clock;

 public:
  static constexpr int kMaxRanks = 64;
  /// Tags at or above this one belong to no collective operation.
  static constexpr uint32_t kFirstOtherTag = 14U << 24;
  static constexpr uint32_t kMailTag = 14U << 24;
  static constexpr uint32_t kBeatTag = 15U << 24;

  /// \throws InvalidArgument for more than kMaxRanks ranks
  RankLink(std::unique_ptr<Transport> transport, CommunicatorOptions options);
  RankLink(const RankLink&) = delete;
  RankLink& operator=(const RankLink&) = delete;
  ~RankLink();

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] const CommunicatorOptions& options() const noexcept { return options_; }
  /// Held while the transport is used.
  [[nodiscard]] std::mutex& mutex() noexcept { return transport_mutex_; }
  [[nodiscard]] Transport& transport() noexcept { return *transport_; }

  /// \throws RankError if a rank was lost or late
  void check() const;
  [[nodiscard]] bool has_failed() const noexcept { return has_failed_; }
  /// Makes every later operation fail with this reason. Only the first reason counts.
  void fail(const std::string& reason) noexcept;
  [[noreturn]] void fail_and_throw(const std::string& reason);
  /// From now on the first failure aborts these connections, and an error that they notice is a
  /// failure. Borrowed until remove().
  void add(DeviceLink& connections);
  void remove(DeviceLink& connections) noexcept;
  /// While this object exists, a thread of this rank waits for its device. If devices are connected
  /// and it waits for longer than CommunicatorOptions::timeout, that is a failure: the devices of
  /// ranks that send heartbeats may hang, too. One thread at a time.
  class DeviceWait {
   public:
    explicit DeviceWait(RankLink& link) noexcept : link_(&link) {
      link.waits_since_ = Clock::now().time_since_epoch().count();
    }
    DeviceWait(const DeviceWait&) = delete;
    DeviceWait& operator=(const DeviceWait&) = delete;
    ~DeviceWait() { link_->waits_since_ = 0; }

   private:
    RankLink* link_;
  };
  /// Ends the thread and the transport. \pre no message is being sent or received
  void finish();

 private:
  struct Peer {
    Transport::Handle beat_in = 0;
    Transport::Handle beat_out = 0;
    bool is_sending = false;
    uint64_t received = 0;
    Clock::time_point heard;
  };

  void watch();
  void stop_watching();
  void exchange_beats(bool is_time_to_send);
  [[nodiscard]] std::string find_silent_peer(Clock::time_point now) const;
  [[nodiscard]] std::string find_device_failure(Clock::time_point now);

  std::unique_ptr<Transport> transport_;
  CommunicatorOptions options_;
  int rank_;
  int size_;
  std::mutex transport_mutex_;
  mutable std::mutex failure_mutex_;
  std::string failure_;
  std::atomic<bool> has_failed_ = false;
  std::mutex devices_mutex_;
  std::vector<DeviceLink*> devices_;
  std::atomic<Clock::rep> waits_since_ = 0;  // 0: no thread waits for the device
  // Used by the thread that watches over heartbeats.
  std::vector<Peer> peers_;  // by rank; the own entry is unused
  uint64_t beat_ = 0;
  std::mutex stop_mutex_;
  std::condition_variable stop_condition_;
  bool stops_ = false;
  std::thread watcher_;
};

/// A pause of a thread between two looks for a message. Messages between running ranks take
/// microseconds. The thread yields its core at first and later sleeps, because ranks may share
/// cores.
void pause_between_looks(std::chrono::steady_clock::duration waited);

}  // namespace reprise::parallel
