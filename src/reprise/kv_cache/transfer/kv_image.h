#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "reprise/kv_cache/block_id.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/kv_cache/transfer/shared_bytes.h"

namespace reprise::kv_cache {

/// A copy of the keys and values of a prompt, which another engine of the same model can continue.
/// Constant once it is made; shared between threads.
///
/// The bytes are whole blocks in token order: for each block, its part of every tensor of the cache
/// (KvCacheTensors::tensors()). The slots of the last block that hold no token are zero.
struct KvImage {
  std::string model;   // equal for engines that can exchange images; see describe_cache()
  std::string prompt;  // prompt_digest() of the computed prompt; never leaves the process
  int32_t num_tokens = 0;
  bool is_trusted = false;  // other requests may use it: see KvTransferConfig::trusts_peers()
  SharedBytes bytes;
};

/// The bytes of an image of this many tokens.
[[nodiscard]] size_t kv_image_bytes(const KvCacheLayout& layout, int64_t num_tokens);

/// The shape of a cache, for KvImage::model.
[[nodiscard]] std::string describe_cache(const KvCacheLayout& layout);

/// Identifies tokens, the adapter that computed them ("": none) and the salt of their request:
/// SHA-256, hexadecimal.
[[nodiscard]] std::string prompt_digest(std::span<const int32_t> token_ids,
                                        std::string_view adapter,
                                        std::string_view cache_salt);

/// Copies the slots [0, num_tokens) of a request out of the cache; `stream` orders the copy after
/// the steps before it. The result is sealed. \pre `block_ids` have these slots \throws OutOfMemory
[[nodiscard]] SharedBytes save_kv(device::Stream& stream,
                                  const KvCacheTensors& cache,
                                  std::span<const BlockId> block_ids,
                                  int64_t num_tokens);

/// Copies the blocks [first_block, end) of an image into the same blocks of a request, up to the
/// block of token num_tokens - 1. \pre the image has the cache's layout and these tokens
void load_kv(const KvImage& image,
             device::Stream& stream,
             const KvCacheTensors& cache,
             std::span<const BlockId> block_ids,
             int64_t first_block,
             int64_t num_tokens);

}  // namespace reprise::kv_cache
