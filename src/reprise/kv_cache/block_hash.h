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

/// SHA-256 digest that identifies the content of a full block: its tokens, all tokens before them,
/// and everything else that the keys and values depend on. The cache takes blocks with equal
/// hashes for blocks with equal content, so the hash must be a cryptographic one.
using BlockHash = std::array<std::byte, 32>;

/// The facts beside the tokens that decide whether two requests may share a cached block.
struct PrefixKey {
  std::string_view cache_salt;      // requests share blocks only under an equal salt
  std::optional<uint64_t> lora_id;  // adapter, if any
};

/// The hashes of a request's full blocks, in order. Each hash covers its parent, so equal hashes
/// mean equal prefixes. The chain grows with the request's tokens and outlives the blocks, because
/// a preemption changes no token. Each hashed item carries its type and its length, so two
/// different contents never give the same bytes. While prefix caching is off the chain stays
/// empty. Move-only; not thread-safe.
class BlockHashChain {
 public:
  BlockHashChain() = default;
  BlockHashChain(const PrefixKey& key, int block_size);

  /// Makes later growth up to `num_tokens` free of heap allocation.
  void reserve(int num_tokens);
  /// Hashes the full blocks of `token_ids` that are not hashed yet.
  /// \pre The tokens of the blocks hashed before are unchanged.
  void extend(std::span<const int32_t> token_ids);

  [[nodiscard]] std::span<const BlockHash> hashes() const noexcept { return hashes_; }

 private:
  struct FreeContext {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };

  int block_size_ = 0;  // 0: nothing is hashed
  // Made once: hashing a block on the step path must not allocate.
  std::unique_ptr<evp_md_ctx_st, FreeContext> context_;
  BlockHash root_{};  // parent of the first block: hash of the key
  std::vector<BlockHash> hashes_;
};

}  // namespace reprise::kv_cache
