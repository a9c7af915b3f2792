#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "reprise/kv_cache/transfer/kv_exports.h"
#include "reprise/kv_cache/transfer/kv_socket.h"
#include "reprise/kv_cache/transfer/kv_source.h"
#include "reprise/kv_cache/transfer/kv_transfer_config.h"

namespace reprise::kv_cache {

/// Gives images to the consumers that know their ids. An id is a random number of 128 bits, so who
/// can connect but was told no id gets nothing.
///
/// One request a connection, a line of JSON each way:
///   {"op": "get", "id": ID} -> {"status": "ok", "model": ..., "prompt": ..., "num_tokens": ...,
///   "num_bytes": ...}, and then the bytes or, between processes of one machine, a descriptor;
///   {"op": "done", "id": ID} after it, when the consumer has the bytes -> the image is forgotten.
/// Anything else is answered {"status": "error", "message": ...}.
class KvServer {
 public:
  /// Starts threads. `exports` is borrowed. \throws InvalidArgument when it cannot listen
  KvServer(const KvTransferConfig& config, KvExports& exports);
  KvServer(const KvServer&) = delete;
  KvServer& operator=(const KvServer&) = delete;
  ~KvServer();

  [[nodiscard]] int32_t port() const noexcept { return listener_.port(); }

 private:
  void run();
  void serve(KvSocket& peer) const;

  std::chrono::seconds timeout_;
  bool shares_memory_;
  KvExports* exports_;
  KvSocket listener_;
  std::atomic<bool> ends_ = false;
  std::vector<std::jthread> threads_;  // last: they use the members above
};

/// Fetches an image that must be of this model and of the beginning of these tokens, computed with
/// this adapter ("": none). Waits for the other side, at most for the timeout of the configuration.
/// \throws Error which says what failed and where; OutOfMemory
[[nodiscard]] std::shared_ptr<const KvImage> fetch_image(const KvTransferConfig& config,
                                                         const KvCacheLayout& layout,
                                                         const KvSource& source,
                                                         std::string_view model,
                                                         std::span<const int32_t> token_ids,
                                                         std::string_view adapter,
                                                         const std::atomic<bool>* end = nullptr);

}  // namespace reprise::kv_cache
