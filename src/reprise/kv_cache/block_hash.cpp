#include "reprise/kv_cache/block_hash.h"

#include <openssl/evp.h>

#include <bit>
#include <new>

#include "reprise/base/assert.h"

namespace reprise::kv_cache {
namespace {

static_assert(std::endian::native == std::endian::little, "hashes are defined over little endian");

// One byte that precedes each hashed item. A root hash starts with `root`, a block's hash with
// `block`.
enum class Item : uint8_t { root = 1, block, parent, tokens, cache_salt, lora_id };

// If `type` is nullptr, OpenSSL restarts the context with the digest that it had before.
void start(EVP_MD_CTX* hash, const EVP_MD* type = nullptr) {
  const int started = EVP_DigestInit_ex2(hash, type, nullptr);
  REPRISE_ASSERT(started == 1, "OpenSSL refuses to start SHA-256");
}

// The length has only 4 bytes, so that a block of 16 tokens takes 111 bytes. SHA-256 processes
// these in two compressions.
void update_item(EVP_MD_CTX* hash, Item type, std::span<const std::byte> payload) {
  struct [[gnu::packed]] {
    Item type;
    uint32_t num_bytes;
  } const header = {type, static_cast<uint32_t>(payload.size())};
  EVP_DigestUpdate(hash, &header, sizeof(header));
  EVP_DigestUpdate(hash, payload.data(), payload.size());
}

BlockHash finish(EVP_MD_CTX* hash) {
  BlockHash digest;
  EVP_DigestFinal_ex(hash, reinterpret_cast<unsigned char*>(digest.data()), nullptr);
  return digest;
}

}  // namespace

void BlockHashChain::FreeContext::operator()(evp_md_ctx_st* context) const noexcept {
  EVP_MD_CTX_free(context);
}

BlockHashChain::BlockHashChain(const PrefixKey& key, int block_size)
    : block_size_(block_size), context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  EVP_MD_CTX* hash = context_.get();
  start(hash, EVP_sha256());
  update_item(hash, Item::root, {});
  update_item(hash, Item::cache_salt, std::as_bytes(std::span(key.cache_salt)));
  if (key.lora_id) update_item(hash, Item::lora_id, std::as_bytes(std::span(&*key.lora_id, 1)));
  root_ = finish(hash);
}

void BlockHashChain::reserve(int num_tokens) {
  if (block_size_ > 0) hashes_.reserve(static_cast<size_t>(num_tokens / block_size_));
}

void BlockHashChain::extend(std::span<const int32_t> token_ids) {
  if (block_size_ == 0) return;
  const auto block_size = static_cast<size_t>(block_size_);
  EVP_MD_CTX* hash = context_.get();
  for (size_t i = hashes_.size(); (i + 1) * block_size <= token_ids.size(); ++i) {
    start(hash);
    update_item(hash, Item::block, {});
    update_item(hash, Item::parent, i == 0 ? root_ : hashes_[i - 1]);
    update_item(hash, Item::tokens, std::as_bytes(token_ids.subspan(i * block_size, block_size)));
    hashes_.push_back(finish(hash));
  }
}

}  // namespace reprise::kv_cache
