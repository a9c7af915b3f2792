#include "reprise/kv_cache/block_hash.h"

#include <bit>
#include <cstddef>

namespace reprise::kv_cache {
namespace {

static_assert(std::endian::native == std::endian::little, "hashes are defined over little endian");

// One byte of type before each item. `root` and `block` open the two kinds of content.
enum class Item : uint8_t { root = 1, block, parent, tokens, cache_salt, lora_id };

// With a 4-byte length, a block of 16 tokens takes 111 bytes: two compressions.
void update_item(Sha256& hash, Item type, std::span<const std::byte> payload) {
  struct [[gnu::packed]] {
    Item type;
    uint32_t num_bytes;
  } const header = {type, static_cast<uint32_t>(payload.size())};
  hash.update(std::as_bytes(std::span(&header, 1))).update(payload);
}

BlockHash hash_key(const PrefixKey& key) {
  Sha256 hash;
  update_item(hash, Item::root, {});
  update_item(hash, Item::cache_salt, std::as_bytes(std::span(key.cache_salt)));
  if (key.lora_id) update_item(hash, Item::lora_id, std::as_bytes(std::span(&*key.lora_id, 1)));
  return std::move(hash).finish();
}

BlockHash hash_block(const BlockHash& parent, std::span<const int32_t> token_ids) {
  Sha256 hash;
  update_item(hash, Item::block, {});
  update_item(hash, Item::parent, parent);
  update_item(hash, Item::tokens, std::as_bytes(token_ids));
  return std::move(hash).finish();
}

}  // namespace

BlockHashChain::BlockHashChain(const PrefixKey& key, int block_size)
    : block_size_(block_size), root_(hash_key(key)) {}

void BlockHashChain::reserve(int num_tokens) {
  if (block_size_ > 0) hashes_.reserve(static_cast<size_t>(num_tokens / block_size_));
}

void BlockHashChain::extend(std::span<const int32_t> token_ids) {
  if (block_size_ == 0) return;
  const auto block_size = static_cast<size_t>(block_size_);
  for (size_t i = hashes_.size(); (i + 1) * block_size <= token_ids.size(); ++i) {
    hashes_.push_back(
        hash_block(i == 0 ? root_ : hashes_[i - 1], token_ids.subspan(i * block_size, block_size)));
  }
}

}  // namespace reprise::kv_cache
