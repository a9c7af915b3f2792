#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

struct evp_md_ctx_st;  // OpenSSL's hash context

namespace reprise::kv_cache {

/// SHA-256 digest of everything that the keys and values of a full block depend on: its tokens, all
/// tokens before them, and the PrefixKey. The cache treats blocks with equal hashes as equal
/// without comparing tokens, so the hash must be cryptographic: nobody can construct two prefixes
/// with one hash.
using BlockHash = std::array<std::byte, 32>;

/// Besides equal tokens, two requests need an equal PrefixKey to share a cached block.
struct PrefixKey {
  // Chosen by the caller; separates requests that must not share blocks.
  std::string_view cache_salt;
  std::optional<uint64_t> lora_id;  // the LoRA adapter, if any
};

/// The hashes of a request's full blocks, in order. Each hash includes the hash of the block before
/// it, so equal hashes mean equal prefixes. The chain only grows with the request's tokens. It
/// survives a preemption, which frees the blocks but changes no token. Each hashed item is preceded
/// by its type and its length, so different contents never give the same byte string. If prefix
/// caching is off, the chain stays empty. Move-only; not thread-safe.
class BlockHashChain {
 public:
  BlockHashChain() = default;
  BlockHashChain(const PrefixKey& key, int block_size);

  /// Allocates the memory for `num_tokens` tokens, so that extend() up to that length need not
  /// allocate.
  void reserve(int num_tokens);
  /// Hashes the full blocks of `token_ids` that are not hashed yet.
  /// \pre the tokens of the blocks that are already hashed have not changed
  void extend(std::span<const int32_t> token_ids);

  [[nodiscard]] std::span<const BlockHash> hashes() const noexcept { return hashes_; }

 private:
  struct FreeContext {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };

  int block_size_ = 0;  // 0: nothing is hashed
  // Created once, because hashing a block during a step must not allocate.
  std::unique_ptr<evp_md_ctx_st, FreeContext> context_;
  // The hash of the PrefixKey; it takes the place of the hash before the first block.
  BlockHash root_{};
  std::vector<BlockHash> hashes_;
};

}  // namespace reprise::kv_cache
