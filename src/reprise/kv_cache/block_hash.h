#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "reprise/kv_cache/sha256.h"

namespace reprise::kv_cache {

/// Identity of what a full block holds: its tokens, all tokens before them, and whatever else the
/// keys and values depend on. Equal hashes are taken for equal content, hence a cryptographic one.
using BlockHash = Sha256Digest;

/// What the content of a request's blocks depends on beside its tokens, or must not be shared over.
struct PrefixKey {
  std::string_view cache_salt;      // empty: shared with everyone who has none
  std::optional<uint64_t> lora_id;  // adapter, if any
};

/// The hashes of a request's full blocks, in order: each covers its parent, so that equal hashes
/// mean equal prefixes. Grows with the request's tokens and outlives its blocks (a preemption
/// changes no token). Everything hashed is typed and length-prefixed: no two contents have the same
/// bytes. Empty and useless while prefix caching is off.
class BlockHashChain {
 public:
  BlockHashChain() = default;
  BlockHashChain(const PrefixKey& key, int block_size);

  /// Makes later growth up to `num_tokens` free of heap allocation.
  void reserve(int num_tokens);
  /// Hashes the full blocks of `token_ids` that are not hashed yet. \pre the tokens of those that
  /// are have not changed
  void extend(std::span<const int32_t> token_ids);

  [[nodiscard]] std::span<const BlockHash> hashes() const noexcept { return hashes_; }

 private:
  int block_size_ = 0;  // 0: nothing is hashed
  BlockHash root_{};    // parent of the first block: hash of the key
  std::vector<BlockHash> hashes_;
};

}  // namespace reprise::kv_cache
