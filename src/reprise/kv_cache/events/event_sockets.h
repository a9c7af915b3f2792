#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace reprise::kv_cache {

/// One payload with its number.
struct NumberedPayload {
  uint64_t number = 0;
  std::string_view payload;
};

/// The result of sending a payload.
enum class EventDelivery : uint8_t {
  sent,
  missed_by_some,  // sent, but at least one subscriber was too slow and did not get it
  dropped,
};

/// The sockets through which a KvEventPublisher sends. Only the publisher's thread calls these
/// functions.
class EventSockets {
 public:
  EventSockets() = default;
  EventSockets(const EventSockets&) = delete;
  EventSockets& operator=(const EventSockets&) = delete;
  virtual ~EventSockets() = default;

  /// Sends a payload to all subscribers.
  [[nodiscard]] virtual EventDelivery send(const NumberedPayload& payload) = 0;

  /// Passes the payloads to its argument, one after the other, until there are no more or the
  /// argument returns false.
  using ForEachFrom =
      std::function<void(uint64_t number, const std::function<bool(const NumberedPayload&)>&)>;
  /// Answers the waiting replay requests. Each gets all payloads from the number that it names;
  /// `payloads_from` enumerates these.
  virtual void answer_replays(const ForEachFrom& payloads_from) = 0;
};

}  // namespace reprise::kv_cache
