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
  missed_by_some,  // sent, but a subscriber that does not keep up did not get it
  dropped,
};

/// What a KvEventPublisher sends through. Only its thread calls these functions.
class EventSockets {
 public:
  EventSockets() = default;
  EventSockets(const EventSockets&) = delete;
  EventSockets& operator=(const EventSockets&) = delete;
  virtual ~EventSockets() = default;

  /// Sends a payload to all subscribers.
  [[nodiscard]] virtual EventDelivery send(const NumberedPayload& payload) = 0;

  /// Gives one payload after the other to its argument, until there is none or the argument returns
  /// false.
  using ForEachFrom =
      std::function<void(uint64_t number, const std::function<bool(const NumberedPayload&)>&)>;
  /// Answers the replay requests that are waiting: to each, all payloads from the number that it
  /// names on, which `payloads_from` enumerates.
  virtual void answer_replays(const ForEachFrom& payloads_from) = 0;
};

}  // namespace reprise::kv_cache
