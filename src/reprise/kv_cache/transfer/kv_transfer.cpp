#include "reprise/kv_cache/transfer/kv_transfer.h"

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

#include "reprise/kv_cache/transfer/kv_mac.h"
#include "reprise/kv_cache/transfer/kv_socket.h"

namespace reprise::kv_cache {

void KvExport::save(device::Stream& stream,
                    const KvCacheTensors& cache,
                    std::span<const BlockId> block_ids,
                    std::span<const int32_t> prompt_token_ids) noexcept {
  try {
    const auto num_tokens = static_cast<int32_t>(prompt_token_ids.size());
    if (is_kept() || !exports_->has_room(kv_image_bytes(cache.layout(), num_tokens))) return;
    auto image = std::make_shared<KvImage>();
    image->model = model_;
    image->prompt = prompt_digest(prompt_token_ids, adapter_, cache_salt_);
    image->num_tokens = num_tokens;
    image->bytes = save_kv(stream, cache, block_ids, num_tokens);
    if (exports_->add(id_, std::move(image))) num_tokens_ = num_tokens;
  } catch (const std::exception&) {
    // The image found no memory; the consumer will compute the prompt itself.
    exports_->count_refused();
  }
}

KvTransfer::KvTransfer(KvTransferConfig config, const KvCacheLayout& layout, std::string model)
    : config_(std::move(config)),
      model_(std::move(model)),
      exports_(static_cast<size_t>(config_.kv_buffer_size), config_.keep_time) {
  if (config_.engine_id.empty()) config_.engine_id = random_digits();
  if (config_.consumes()) fetches_ = std::make_unique<KvFetches>(config_, layout, model_, loop_);
  if (config_.produces()) server_ = std::make_unique<KvServer>(config_, exports_, loop_);
}

KvTransfer::~KvTransfer() {
  if (fetches_) fetches_->stop();
  loop_.stop();
}

bool KvTransfer::is_loopback() const {
  return config_.connector == KvConnector::shared_memory || config_.kv_ip.starts_with("127.") ||
         config_.kv_ip == "::1" || config_.kv_ip == "localhost";
}

std::shared_ptr<KvExport> KvTransfer::begin_export(std::string_view adapter,
                                                   std::string_view cache_salt) {
  return std::make_shared<KvExport>(
      random_digits(), model_, std::string(adapter), std::string(cache_salt), exports_);
}

bool KvTransfer::is_peer(const KvProducer& producer) const {
  return std::ranges::any_of(config_.peers, [&](const KvPeer& peer) {
    const int32_t port = peer.port.value_or(config_.kv_port);
    if (port != 0 && port != producer.port) return false;
    // A wildcard allows only addresses in digits: a client could make any name lead to an address
    // of its choice.
    return peer.host == "*" ? KvSocket::is_numeric(producer.host) : peer.host == producer.host;
  });
}

KvTransferCounts KvTransfer::counts() const {
  KvTransferCounts counts = fetches_ ? fetches_->counts() : KvTransferCounts();
  counts.exports = exports_.counts();
  return counts;
}

}  // namespace reprise::kv_cache
