#pragma once

#include <cstdint>
#include <span>

namespace reprise::sampling {

/// A digest of the bits of these floats.
[[nodiscard]] uint64_t digest_of_floats(std::span<const float> values) noexcept;

/// A digest of a row of logits that costs far less than reading the row: of the largest logit of
/// each part of kPartSize logits, which the sampler has anyway, and of the logit of the token that
/// was chosen. `maxima_digest`: digest_of_floats() of the maxima, before any adjustment. Never 0.
///
/// A change of the hidden state changes nearly all logits, and so the digest. A change that touches
/// neither a maximum of a part nor the chosen logit is not seen.
[[nodiscard]] uint64_t digest_of_row(uint64_t maxima_digest, float chosen_logit) noexcept;

}  // namespace reprise::sampling
