#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "reprise/kv_cache/block_hash.h"

namespace reprise::kv_cache {

/// What the hashes of a request's blocks were made of.
struct BlockSource {
  std::span<const int32_t> token_ids;  // all tokens of the request, from its first one
  std::string_view cache_salt;
  std::optional<uint64_t> lora_id;
  std::string_view lora_name;
};

/// Blocks of one request that can be found from now on. Each continues the one before it.
struct StoredBlocks {
  std::span<const BlockHash> hashes;
  const BlockHash* parent = nullptr;   // the block before the first; nullptr: it begins the prompt
  std::span<const int32_t> token_ids;  // of these blocks
  int block_size = 0;                  // tokens per block
  const BlockSource* source = nullptr;
};

/// Is told which blocks can be found by their hashes, in the order of the changes. A listener that
/// applies all calls knows exactly the published blocks. Borrows its arguments only for the call.
class CacheListener {
 public:
  CacheListener() = default;
  CacheListener(const CacheListener&) = delete;
  CacheListener& operator=(const CacheListener&) = delete;
  virtual ~CacheListener() = default;

  virtual void on_stored(const StoredBlocks& blocks) = 0;
  virtual void on_removed(const BlockHash& hash) = 0;
  virtual void on_cleared() = 0;
  /// A step has ended: the events since the last call of this function belong to the step.
  virtual void on_step_end() = 0;
};

}  // namespace reprise::kv_cache
