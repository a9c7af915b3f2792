#include "reprise/kv_cache/sha256.h"

#include <algorithm>
#include <bit>

namespace reprise::kv_cache {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_big_endian(const std::byte* bytes) {
  return std::to_integer<uint32_t>(bytes[0]) << 24 | std::to_integer<uint32_t>(bytes[1]) << 16 |
         std::to_integer<uint32_t>(bytes[2]) << 8 | std::to_integer<uint32_t>(bytes[3]);
}

template <typename Value>
void store_big_endian(Value value, std::byte* bytes) {
  for (size_t i = sizeof(Value); i-- > 0; value >>= 8) bytes[i] = static_cast<std::byte>(value);
}

}  // namespace

Sha256& Sha256::update(std::span<const std::byte> data) {
  size_t num_pending = num_bytes_ % kChunkBytes;
  num_bytes_ += data.size();
  while (!data.empty()) {
    const size_t count = std::min(kChunkBytes - num_pending, data.size());
    std::copy_n(data.begin(), count, pending_.begin() + static_cast<std::ptrdiff_t>(num_pending));
    data = data.subspan(count);
    num_pending = (num_pending + count) % kChunkBytes;
    if (num_pending == 0) compress(pending_.data());
  }
  return *this;
}

Sha256Digest Sha256::finish() && {
  const uint64_t num_bits = num_bytes_ * 8;
  // 0x80, zeros up to 56 bytes of the last chunk, then the length.
  std::array<std::byte, kChunkBytes + 8> padding{std::byte{0x80}};
  const size_t num_pending = num_bytes_ % kChunkBytes;
  const size_t num_padding = (num_pending < 56 ? 56 : 120) - num_pending;
  store_big_endian(num_bits, padding.data() + num_padding);
  update(std::span(padding).first(num_padding + 8));
  Sha256Digest digest;
  for (size_t i = 0; i < state_.size(); ++i) store_big_endian(state_[i], digest.data() + 4 * i);
  return digest;
}

void Sha256::compress(const std::byte* chunk) {
  std::array<uint32_t, 64> w;
  for (size_t t = 0; t < 16; ++t) w[t] = load_big_endian(chunk + 4 * t);
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t choice = (e & f) ^ (~e & g);
    const uint32_t t1 = h + sum1 + choice + kRoundConstants[t] + w[t];
    const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + sum0 + majority;
  }
  const std::array<uint32_t, 8> working = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state_.size(); ++i) state_[i] += working[i];
}

}  // namespace reprise::kv_cache
