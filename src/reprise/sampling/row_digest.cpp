#include "reprise/sampling/row_digest.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace reprise::sampling {

uint64_t digest_of_floats(std::span<const float> values) noexcept {
  return XXH3_64bits(values.data(), values.size_bytes());
}

uint64_t digest_of_row(uint64_t maxima_digest, float chosen_logit) noexcept {
  const auto bits = std::bit_cast<uint32_t>(chosen_logit);
  return std::max<uint64_t>(XXH3_64bits_withSeed(&bits, sizeof bits, maxima_digest), 1);
}

}  // namespace reprise::sampling
