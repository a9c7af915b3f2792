#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "reprise/kv_cache/transfer/kv_exports.h"
#include "reprise/kv_cache/transfer/kv_server.h"
#include "reprise/kv_cache/transfer/kv_transfer_config.h"

namespace reprise::kv_cache {

/// Takes the image of one request's prompt when it is computed.
class KvExport {
 public:
  KvExport(std::string id, std::string model, std::string adapter, KvExports& exports)
      : id_(std::move(id)),
        model_(std::move(model)),
        adapter_(std::move(adapter)),
        exports_(&exports) {}

  /// Called by the thread that computes steps, once the whole prompt is computed. Keeps nothing
  /// when there is no room or no memory; the request goes on.
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
  KvExports* exports_;
  std::atomic<int32_t> num_tokens_ = 0;
};

/// One engine's part of a pair that computes prompts in one process and answers in another.
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
  /// Whether only this machine can connect.
  [[nodiscard]] bool is_loopback() const;

  /// For the prompt of one request of this producer, computed with this adapter ("": none).
  [[nodiscard]] std::shared_ptr<KvExport> begin_export(std::string_view adapter);

  /// Whether requests may name this host.
  [[nodiscard]] bool is_peer(std::string_view host) const;
  struct Fetched {
    std::shared_ptr<const KvImage> image;  // null: `error` says why
    std::string error;
  };
  /// Fetches the image of the prompt's beginning and calls `on_fetched` once, on a thread of this
  /// object, or in this call when too many others wait. It must not block or throw. The images that
  /// were fetched and are still held have at most kv_buffer_size bytes together.
  void fetch(KvSource source,
             std::vector<int32_t> prompt_token_ids,
             std::string adapter,
             std::function<void(Fetched)> on_fetched);

  [[nodiscard]] KvTransferCounts counts() const;

 private:
  struct Job {
    KvSource source;
    std::vector<int32_t> prompt_token_ids;
    std::string adapter;
    std::function<void(Fetched)> on_fetched;
  };

  void run();
  [[nodiscard]] Fetched fetch_now(const Job& job);
  [[nodiscard]] std::shared_ptr<const KvImage> fetch_into_room(const Job& job);

  KvTransferConfig config_;
  KvCacheLayout layout_;
  std::string model_;
  KvExports exports_;
  /// Of the images that were fetched. Shared with these images, which may outlive this object.
  std::shared_ptr<std::atomic<size_t>> bytes_held_ = std::make_shared<std::atomic<size_t>>(0);
  std::unique_ptr<KvServer> server_;  // null: a consumer

  mutable std::mutex mutex_;  // guards the members below, except the threads
  std::condition_variable work_;
  std::deque<Job> jobs_;
  KvTransferCounts counts_;
  std::atomic<bool> stop_ = false;
  std::vector<std::jthread> threads_;  // last: they use the members above
};

}  // namespace reprise::kv_cache
