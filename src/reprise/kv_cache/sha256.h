#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::kv_cache {

using Sha256Digest = std::array<std::byte, 32>;

/// SHA-256 of data that comes in parts. An own implementation, because the step path must not
/// allocate and this folder is usable alone: a library's context costs more than the two
/// compressions that hash a block. Not for secrets: nothing here is wiped.
/// Source: FIPS 180-4, section 6.2.
class Sha256 {
 public:
  Sha256& update(std::span<const std::byte> data);
  /// The digest of all that came; this object is used up.
  [[nodiscard]] Sha256Digest finish() &&;

 private:
  static constexpr size_t kChunkBytes = 64;
  void compress(const std::byte* chunk);

  std::array<uint32_t, 8> state_ = {0x6a09e667,
                                    0xbb67ae85,
                                    0x3c6ef372,
                                    0xa54ff53a,
                                    0x510e527f,
                                    0x9b05688c,
                                    0x1f83d9ab,
                                    0x5be0cd19};
  std::array<std::byte, kChunkBytes> pending_{};
  uint64_t num_bytes_ = 0;
};

}  // namespace reprise::kv_cache
