#pragma once

#include <cstdint>
#include <memory>

#include "reprise/kv_cache/transfer/kv_exports.h"
#include "reprise/kv_cache/transfer/kv_loop.h"
#include "reprise/kv_cache/transfer/kv_transfer_config.h"

namespace reprise::kv_cache {

/// Gives images to the consumers that know their ids and, if there is one, the secret (see
/// kv_messages.h). An id is a random number of 128 bits, so an unknown peer gets nothing even
/// without a secret.
///
/// A connection whose first message has not arrived after a few seconds is closed. When one host
/// has kMaxSilentOfOneHost of them, or all hosts have kMaxConnections, a new connection closes the
/// oldest of them: a real consumer sends its message at once, so it is never the oldest for long.
class KvServer {
 public:
  static constexpr size_t kMaxSilentOfOneHost = 32;
  static constexpr size_t kMaxConnections = 256;

  /// Adds itself to `loop`. Borrows `loop` and `exports`, which must both outlive the loop's
  /// thread. \throws InvalidArgument when it cannot listen
  KvServer(const KvTransferConfig& config, KvExports& exports, KvLoop& loop);

  [[nodiscard]] int32_t port() const noexcept { return port_; }

 private:
  int32_t port_ = 0;
};

}  // namespace reprise::kv_cache
