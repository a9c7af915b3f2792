#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::kv_cache {

/// The role of an engine: it computes prompts for others, continues the prompts of others, or does
/// both.
enum class KvRole : uint8_t { producer, consumer, both };

/// What happens to a request whose keys and values cannot be fetched: it fails, or its prompt is
/// computed here.
enum class KvLoadFailurePolicy : uint8_t { fail, recompute };

/// How the bytes travel: through a TCP connection, or as memory that both processes map.
enum class KvConnector : uint8_t { none, tcp, shared_memory };

/// An address at which producers may be.
struct KvPeer {
  std::string host;             // "*": any address in digits
  std::optional<int32_t> port;  // 0: any port; unset: the kv_port of the same configuration

  friend bool operator==(const KvPeer&, const KvPeer&) = default;
};

/// The keys of --kv-transfer-config. Names and defaults are vLLM's; kv_ip and kv_buffer_size are
/// those of its older releases. The last members are keys of kv_connector_extra_config.
struct KvTransferConfig {
  KvConnector connector = KvConnector::none;
  KvRole role = KvRole::both;
  std::string engine_id;            // empty: a random one
  std::string kv_ip = "127.0.0.1";  // where a producer listens, and what it tells consumers
  int32_t kv_port = 14579;          // 0: any free port
  // The largest number of bytes of prompts that wait for a consumer.
  int64_t kv_buffer_size = 1 << 30;
  KvLoadFailurePolicy load_failure_policy = KvLoadFailurePolicy::fail;
  /// The producers that a request may name. A consumer connects to what a request names, so this
  /// keeps clients from choosing the target.
  std::vector<KvPeer> peers = {{"127.0.0.1"}, {"localhost"}, {"::1"}};
  /// A text that only producers and consumers know; never printed. Empty: none. Images from a TCP
  /// connection are then used only by the requests that named them, and never become part of the
  /// shared prefix cache.
  std::string secret;
  // The file that it was read from; empty: an environment variable, or there is no secret.
  std::string secret_file;
  std::chrono::seconds keep_time{480};  // how long a prompt waits for a consumer
  std::chrono::seconds timeout{30};     // of one transfer

  [[nodiscard]] bool is_on() const noexcept { return connector != KvConnector::none; }
  [[nodiscard]] bool produces() const noexcept { return is_on() && role != KvRole::consumer; }
  /// Whether bytes carry a code. Shared memory needs none: the kernel confirms that it comes from a
  /// process of the same user.
  [[nodiscard]] bool signs_bytes() const noexcept {
    return connector == KvConnector::tcp && !secret.empty();
  }
  /// Whether other requests may use images that were fetched.
  [[nodiscard]] bool trusts_peers() const noexcept {
    return connector == KvConnector::shared_memory || !secret.empty();
  }
  [[nodiscard]] bool consumes() const noexcept { return is_on() && role != KvRole::producer; }
};

}  // namespace reprise::kv_cache
