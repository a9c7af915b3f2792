#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
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

/// Where producers are that a consumer connects to.
struct KvPeer {
  std::string host;             // "*": any address in digits
  std::optional<int32_t> port;  // 0: any; unset: the kv_port of the same configuration

  friend bool operator==(const KvPeer&, const KvPeer&) = default;
};

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
  /// The producers that a request may name. A consumer connects to what a request names, so this
  /// keeps clients from choosing the target.
  std::vector<KvPeer> peers = {{"127.0.0.1"}, {"localhost"}, {"::1"}};
  /// What producers and consumers share, and nobody else knows; never printed. Empty: none. Images
  /// of a TCP connection are then believed by the requests that named them only, and never become
  /// part of the shared prefix cache.
  std::string secret;
  std::string secret_file;              // where it came from; empty: a variable, or there is none
  std::chrono::seconds keep_time{480};  // how long a prompt waits for a consumer
  std::chrono::seconds timeout{30};     // of one transfer

  [[nodiscard]] bool is_on() const noexcept { return connector != KvConnector::none; }
  [[nodiscard]] bool produces() const noexcept { return is_on() && role != KvRole::consumer; }
  /// Whether bytes carry a code. Memory comes from a process of the same user, as the kernel says.
  [[nodiscard]] bool signs_bytes() const noexcept {
    return connector == KvConnector::tcp && !secret.empty();
  }
  /// Whether other requests may use what was fetched.
  [[nodiscard]] bool trusts_peers() const noexcept {
    return connector == KvConnector::shared_memory || !secret.empty();
  }
  [[nodiscard]] bool consumes() const noexcept { return is_on() && role != KvRole::producer; }
};

}  // namespace reprise::kv_cache
