#pragma once

#include <memory>

#include "reprise/kv_cache/events/event_sockets.h"
#include "reprise/kv_cache/events/kv_events_config.h"

namespace reprise::kv_cache {

/// Opens libzmq and the sockets of the config: a PUB socket for payloads, and a ROUTER socket for
/// replays if there is a replay_endpoint. Messages are those of vLLM:
///   PUB      topic, number (8 bytes, big endian), payload
///   ROUTER   gets: first number wanted (8 bytes, big endian); answers each payload as above, and
///            then: empty, 2^64 - 1, empty
/// \throws InvalidArgument when libzmq is not installed, or when an endpoint cannot be used
[[nodiscard]] std::unique_ptr<EventSockets> open_zmq_event_sockets(const KvEventsConfig& config);

}  // namespace reprise::kv_cache
