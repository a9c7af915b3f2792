#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::kv_cache {

/// What an engine does in a pair: computes prompts for others, continues the prompts of others, or
/// both.
enum class KvRole : uint8_t { producer, consumer, both };

/// What becomes of a request whose keys and values cannot be fetched: it fails, or its prompt is
/// computed here.
enum class KvLoadFailurePolicy : uint8_t { fail, recompute };

/// How the bytes travel: through a TCP connection, or as memory that both processes map.
enum class KvConnector : uint8_t { none, tcp, shared_memory };

/// The keys of --kv-transfer-config. Names and defaults are vLLM's; kv_ip and kv_buffer_size are
/// those of its older releases. The last members are keys of kv_connector_extra_config.
struct KvTransferConfig {
  KvConnector connector = KvConnector::none;
  KvRole role = KvRole::both;
  std::string engine_id;             // empty: a random one
  std::string kv_ip = "127.0.0.1";   // where a producer listens, and what it tells consumers
  int32_t kv_port = 14579;           // 0: any free port
  int64_t kv_buffer_size = 1 << 30;  // bytes of prompts that wait for a consumer
  KvLoadFailurePolicy load_failure_policy = KvLoadFailurePolicy::fail;
  /// The hosts that a request may name as its producer; "*": any. A consumer connects to what a
  /// request names, so this keeps clients from choosing the target.
  std::vector<std::string> peers = {"127.0.0.1", "localhost", "::1"};
  std::chrono::seconds keep_time{480};  // how long a prompt waits for a consumer
  std::chrono::seconds timeout{30};     // of one transfer

  [[nodiscard]] bool is_on() const noexcept { return connector != KvConnector::none; }
  [[nodiscard]] bool produces() const noexcept { return is_on() && role != KvRole::consumer; }
  [[nodiscard]] bool consumes() const noexcept { return is_on() && role != KvRole::producer; }
};

}  // namespace reprise::kv_cache
