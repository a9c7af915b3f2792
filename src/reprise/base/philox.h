#pragma once

#include <array>
#include <cstdint>

namespace reprise {

/// Philox4x32-10, a counter-based generator: 128 random bits as a pure function of (counter, key).
/// The generator has no state, so a draw cannot depend on the draws before it.
/// Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11, section 3.3.
[[nodiscard]] constexpr std::array<uint32_t, 4> philox4x32_10(
    std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) noexcept {
  constexpr uint64_t kMultiplier0 = 0xD2511F53;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;
  constexpr uint32_t kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

/// Values of `stream`, one for each use of random numbers.
inline constexpr uint32_t kTokenStream = 0;
inline constexpr uint32_t kSeedStream = 1;

/// Philox with a 64-bit key; `stream` separates independent uses of one (key, position).
[[nodiscard]] constexpr std::array<uint32_t, 4> philox_block(uint64_t key,
                                                             uint64_t position,
                                                             uint32_t stream) noexcept {
  return philox4x32_10(
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), stream, 0},
      {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

/// A double in [0, 1) from the upper 53 of 64 random bits.
[[nodiscard]] constexpr double uniform_from_bits(uint32_t high, uint32_t low) noexcept {
  const uint64_t bits = (static_cast<uint64_t>(high) << 32) | low;
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

}  // namespace reprise
