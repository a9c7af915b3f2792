#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/kv_cache/transfer/kv_exports.h"
#include "reprise/kv_cache/transfer/kv_fetches.h"
#include "reprise/kv_cache/transfer/kv_loop.h"
#include "reprise/kv_cache/transfer/kv_server.h"
#include "reprise/kv_cache/transfer/kv_transfer_config.h"

namespace reprise::kv_cache {

/// Copies one request's prompt out of the cache when it is computed.
class KvExport {
 public:
  KvExport(std::string id,
           std::string model,
           std::string adapter,
           std::string cache_salt,
           KvExports& exports)
      : id_(std::move(id)),
        model_(std::move(model)),
        adapter_(std::move(adapter)),
        cache_salt_(std::move(cache_salt)),
        exports_(&exports) {}

  /// Called by the thread that computes steps, once the whole prompt is computed. Keeps nothing
  /// when there is no room or no memory; the request continues.
  void save(device::Stream& stream,
            const KvCacheTensors& cache,
            std::span<const BlockId> block_ids,
            std::span<const int32_t> prompt_token_ids) noexcept;

  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  /// Whether a consumer can fetch the image. Thread-safe.
  [[nodiscard]] bool is_kept() const noexcept { return num_tokens_ > 0; }
  [[nodiscard]] int32_t num_tokens() const noexcept { return num_tokens_; }

 private:
  std::string id_;
  std::string model_;
  std::string adapter_;
  std::string cache_salt_;
  KvExports* exports_;
  std::atomic<int32_t> num_tokens_ = 0;
};

/// One engine's part of a pair of engines: one process computes prompts, another one answers.
/// Thread-safe.
class KvTransfer {
 public:
  /// `model`: equal for engines whose keys and values can be exchanged. Starts threads; a producer
  /// listens. \throws InvalidArgument when it cannot listen
  KvTransfer(KvTransferConfig config, const KvCacheLayout& layout, std::string model);
  KvTransfer(const KvTransfer&) = delete;
  KvTransfer& operator=(const KvTransfer&) = delete;
  /// Calls the callbacks that still wait, with an error.
  ~KvTransfer();

  [[nodiscard]] const KvTransferConfig& config() const noexcept { return config_; }
  /// Where a producer listens.
  [[nodiscard]] int32_t port() const noexcept { return server_ ? server_->port() : 0; }
  /// Whether the producer can be reached only from this machine.
  [[nodiscard]] bool is_loopback() const;

  /// Begins the export of the prompt of one request of this producer, computed with this adapter
  /// ("": none).
  [[nodiscard]] std::shared_ptr<KvExport> begin_export(std::string_view adapter,
                                                       std::string_view cache_salt);

  /// Whether requests may name this producer.
  [[nodiscard]] bool is_peer(const KvProducer& producer) const;
  /// As KvFetches::fetch(). \pre config().consumes()
  void fetch(KvFetch wanted) { fetches_->fetch(std::move(wanted)); }

  [[nodiscard]] KvTransferCounts counts() const;

 private:
  KvTransferConfig config_;
  std::string model_;
  KvExports exports_;
  KvLoop loop_;
  std::unique_ptr<KvFetches> fetches_;  // null: a producer
  std::unique_ptr<KvServer> server_;    // null: a consumer
};

}  // namespace reprise::kv_cache
