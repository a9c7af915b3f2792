#pragma once

#include <cstdint>
#include <string>

namespace reprise::kv_cache {

/// How an event is written. `map`: with the names of its fields, as vLLM does since June 2026.
/// `array`: with its kind first and then its fields in their order, as vLLM did before.
enum class KvEventEncoding : uint8_t { map, array };

/// The keys of --kv-events-config. Names and defaults are vLLM's, except for `encoding`.
struct KvEventsConfig {
  bool enable_kv_cache_events = false;
  std::string publisher = "zmq";  // zmq or null
  // An address to listen at if it has *, :: or ipc; otherwise a peer to connect to.
  std::string endpoint = "tcp://*:5557";
  std::string replay_endpoint;       // where to listen for replays; empty: nowhere
  int32_t buffer_steps = 10'000;     // payloads that are kept for replays
  int32_t hwm = 100'000;             // payloads that wait for one subscriber; 0: no limit
  int32_t max_queue_size = 100'000;  // payloads that wait for the publisher's thread
  std::string topic;                 // the first frame of every message
  KvEventEncoding encoding = KvEventEncoding::map;
  /// true: a hash is written as the integer of its last 64 bits; false: as all its bytes. vLLM has
  /// an environment variable for this.
  bool use_int_block_hashes = true;

  [[nodiscard]] bool publishes() const noexcept {
    return enable_kv_cache_events && publisher == "zmq";
  }
};

}  // namespace reprise::kv_cache
