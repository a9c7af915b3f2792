#pragma once

#include <cstddef>
#include <cstdint>

/// Limits of numbers that a model's configuration files give, far above what published models use.
namespace reprise::weights {

/// Positions of a context: low enough that the product of any two is below 2^54.
inline constexpr int64_t kMaxPositions = int64_t{1} << 27;
/// Token ids that end a text.
inline constexpr size_t kMaxEosTokens = 64;

}  // namespace reprise::weights
