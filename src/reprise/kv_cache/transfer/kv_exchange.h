#pragma once

#include <chrono>
#include <string_view>

namespace reprise::kv_cache {

/// A conversation with one peer, or a socket at which peers arrive: a state machine that a KvLoop
/// drives. Only the loop's thread calls these functions, and none of them waits.
class KvExchange {
 public:
  using Clock = std::chrono::steady_clock;

  KvExchange() = default;
  KvExchange(const KvExchange&) = delete;
  KvExchange& operator=(const KvExchange&) = delete;
  virtual ~KvExchange() = default;

  /// The event that the exchange waits for.
  struct AwaitedEvent {
    int descriptor = -1;
    // Events of poll(); 0: only a moment must pass.
    short events = 0;
    Clock::time_point deadline = Clock::time_point::max();  // then fail() ends the exchange
  };
  [[nodiscard]] virtual AwaitedEvent awaited_event() const = 0;
  /// Does the work that is possible now, but not so much that other exchanges have to wait long.
  /// Returns false when the exchange is over. \throws std::exception: fail() ends the exchange
  [[nodiscard]] virtual bool advance() = 0;
  /// Tells the owner, or the peer, why the exchange ends.
  virtual void fail(std::string_view problem) noexcept = 0;
};

}  // namespace reprise::kv_cache
