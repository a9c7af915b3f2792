#include "reprise/kv_cache/transfer/kv_image.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <new>

#include "reprise/base/assert.h"

namespace reprise::kv_cache {
namespace {

int64_t num_blocks_of(const KvCacheLayout& layout, int64_t num_tokens) {
  return (num_tokens + layout.block_size - 1) / layout.block_size;
}

size_t row_bytes(const Tensor& tensor) {
  return static_cast<size_t>(tensor.size(3)) * dtype_bytes(tensor.dtype());
}

/// The bytes of one block in one tensor.
size_t part_bytes(const Tensor& tensor) {
  return static_cast<size_t>(tensor.size(1) * tensor.size(2)) * row_bytes(tensor);
}

/// Calls `visit` for each tensor and its part in the blocks [first, end), in the order of an image.
template <typename Visit>
void for_each_part(const KvCacheTensors& cache,
                   std::span<const BlockId> block_ids,
                   int64_t first,
                   int64_t end,
                   const Visit& visit) {
  size_t offset = static_cast<size_t>(first) * cache.layout().bytes_per_block();
  for (int64_t i = first; i < end; ++i) {
    const auto block = static_cast<size_t>(block_ids[static_cast<size_t>(i)]);
    for (const Tensor& tensor : cache.tensors()) {
      const size_t bytes = part_bytes(tensor);
      visit(tensor, i, static_cast<std::byte*>(tensor.data()) + block * bytes, offset);
      offset += bytes;
    }
  }
}

}  // namespace

size_t kv_image_bytes(const KvCacheLayout& layout, int64_t num_tokens) {
  return static_cast<size_t>(num_blocks_of(layout, num_tokens)) * layout.bytes_per_block();
}

std::string describe_cache(const KvCacheLayout& layout) {
  std::string heads = fmt::format("{} KV heads of {}", layout.num_kv_heads, layout.head_dim);
  if (!layout.layer_heads.empty()) {
    heads = "KV heads";
    for (const CacheHeads& layer : layout.layer_heads) {
      heads += fmt::format(" {} of {}", layer.count, layer.head_dim);
    }
  }
  return fmt::format("{} layers, {}, {}, {} per block, {}{}",
                     layout.num_layers,
                     heads,
                     layout.has_values ? "keys and values" : "latent",
                     layout.block_size,
                     dtype_name(layout.dtype),
                     layout.has_row_scales ? " with scales" : "");
}

std::string prompt_digest(std::span<const int32_t> token_ids,
                          std::string_view adapter,
                          std::string_view cache_salt) {
  const auto tokens = std::as_bytes(token_ids);
  const std::array<uint64_t, 2> sizes = {tokens.size(), adapter.size()};
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_MD_CTX* const hash = EVP_MD_CTX_new();
  if (hash == nullptr) throw std::bad_alloc();
  // The lengths before the parts keep different parts from giving the same digest.
  EVP_DigestInit_ex2(hash, EVP_sha256(), nullptr);
  EVP_DigestUpdate(hash, sizes.data(), sizeof(sizes));
  EVP_DigestUpdate(hash, tokens.data(), tokens.size());
  EVP_DigestUpdate(hash, adapter.data(), adapter.size());
  EVP_DigestUpdate(hash, cache_salt.data(), cache_salt.size());
  EVP_DigestFinal_ex(hash, digest.data(), &size);
  EVP_MD_CTX_free(hash);
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + size, ""));
}

SharedBytes save_kv(device::Stream& stream,
                    const KvCacheTensors& cache,
                    std::span<const BlockId> block_ids,
                    int64_t num_tokens) {
  const KvCacheLayout& layout = cache.layout();
  SharedBytes image(kv_image_bytes(layout, num_tokens));
  std::byte* const to = image.writable().data();
  const auto copy = [&](const Tensor& tensor, int64_t block, const std::byte* from, size_t offset) {
    const int64_t num_slots = std::min(layout.block_size, num_tokens - block * layout.block_size);
    if (num_slots == layout.block_size) {
      stream.copy_to_host(to + offset, from, part_bytes(tensor));
      return;
    }
    // The slots without tokens of this request may hold values of another request.
    const size_t row = row_bytes(tensor);
    for (int64_t head = 0; head < tensor.size(1); ++head) {
      const size_t at = static_cast<size_t>(head * layout.block_size) * row;
      stream.copy_to_host(to + offset + at, from + at, static_cast<size_t>(num_slots) * row);
    }
  };
  for_each_part(cache, block_ids, 0, num_blocks_of(layout, num_tokens), copy);
  image.seal();
  return image;
}

void load_kv(const KvImage& image,
             device::Stream& stream,
             const KvCacheTensors& cache,
             std::span<const BlockId> block_ids,
             int64_t first_block,
             int64_t num_tokens) {
  const std::span<const std::byte> from = image.bytes.bytes();
  REPRISE_ASSERT(num_tokens <= image.num_tokens &&
                     from.size() == kv_image_bytes(cache.layout(), image.num_tokens),
                 "{} tokens cannot be read from an image of {} tokens and {} bytes",
                 num_tokens,
                 image.num_tokens,
                 from.size());
  for_each_part(cache,
                block_ids,
                first_block,
                num_blocks_of(cache.layout(), num_tokens),
                [&](const Tensor& tensor, int64_t, std::byte* to, size_t offset) {
                  stream.copy_from_host(to, from.data() + offset, part_bytes(tensor));
                });
}

}  // namespace reprise::kv_cache
