// Blocks of 256 elements: parts of 16 or 32 elements with small integer scales, which share float16
// scales.

#include "reprise/weights/gguf/dequantize.h"
#include "reprise/weights/gguf/scale_and_least.h"

// Source of the layouts: ggml, src/ggml-common.h (block_q2_K to block_iq4_xs).
namespace reprise::weights::gguf {
namespace {

constexpr size_t kElements = 256;

}  // namespace

// 16 bytes of scale (low half) and least value (high half), 64 bytes of two-bit codes, f16 scale,
// f16 scale of the least values. Bits 2k of bytes 32n.. are elements 128n + 32k..
void dequantize_q2_k(const std::byte* block, float* out) {
  const std::byte* codes = block + 16;
  const float scale = half_at(block, 80);
  const float least_scale = half_at(block, 82);
  for (size_t i = 0; i < kElements; ++i) {
    const uint32_t packed = byte_at(block, i / 16);
    const float part_scale = scale * static_cast<float>(packed & 15U);
    const float part_least = least_scale * static_cast<float>(packed >> 4);
    const uint32_t code = byte_at(codes, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3U;
    out[i] = part_scale * static_cast<float>(code) - part_least;
  }
}

// 32 bytes of high bits, 64 bytes of low two bits, 12 bytes of six-bit scales, f16 scale. A high
// bit of 0 means minus 4.
void dequantize_q3_k(const std::byte* block, float* out) {
  const std::byte* codes = block + 32;
  const std::byte* scales = block + 96;
  const float scale = half_at(block, 108);
  for (size_t i = 0; i < kElements; ++i) {
    const size_t part = i / 16;
    const float part_scale = scale * static_cast<float>(q3_k_scale(scales, part));
    const uint32_t code = byte_at(codes, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3U;
    const uint32_t bit = byte_at(block, i % 32) >> (i / 32) & 1U;
    out[i] = part_scale * static_cast<float>(static_cast<int32_t>(code) - (bit != 0 ? 0 : 4));
  }
}

// f16 scale, f16 scale of the least values, 12 bytes (scale_and_least), 128 bytes: the low halves
// of bytes 32n.. are elements 64n.., the high halves elements 64n + 32..
void dequantize_q4_k(const std::byte* block, float* out) {
  const std::byte* codes = block + 16;
  const float scale = half_at(block, 0);
  const float least_scale = half_at(block, 2);
  for (size_t i = 0; i < kElements; ++i) {
    const ScaleAndLeast part = scale_and_least(block + 4, i / 32);
    const float part_scale = scale * static_cast<float>(part.scale);
    const float part_least = least_scale * static_cast<float>(part.least);
    const uint32_t code = byte_at(codes, i / 64 * 32 + i % 32) >> (i % 64 / 32 * 4) & 15U;
    out[i] = part_scale * static_cast<float>(code) - part_least;
  }
}

// As Q4_K, with 32 bytes of fifth bits before the codes: bit k of byte j belongs to element 32k +
// j.
void dequantize_q5_k(const std::byte* block, float* out) {
  const std::byte* fifth_bits = block + 16;
  const std::byte* codes = block + 48;
  const float scale = half_at(block, 0);
  const float least_scale = half_at(block, 2);
  for (size_t i = 0; i < kElements; ++i) {
    const ScaleAndLeast part = scale_and_least(block + 4, i / 32);
    const float part_scale = scale * static_cast<float>(part.scale);
    const float part_least = least_scale * static_cast<float>(part.least);
    const uint32_t low = byte_at(codes, i / 64 * 32 + i % 32) >> (i % 64 / 32 * 4) & 15U;
    const uint32_t high = byte_at(fifth_bits, i % 32) >> (i / 32) & 1U;
    out[i] = part_scale * static_cast<float>(low | high << 4) - part_least;
  }
}

// 128 bytes of low four bits, 64 bytes of high two bits, 16 signed scales, f16 scale. Each half of
// 128 elements has four parts of 32: the low halves of 32 bytes, the low halves of the next 32
// bytes, and then the high halves of both.
void dequantize_q6_k(const std::byte* block, float* out) {
  const std::byte* high_bits = block + 128;
  const std::byte* scales = block + 192;
  const float scale = half_at(block, 208);
  for (size_t i = 0; i < kElements; ++i) {
    const size_t part = i % 128 / 32;
    const uint32_t low =
        byte_at(block, i / 128 * 64 + part % 2 * 32 + i % 32) >> (part / 2 * 4) & 15U;
    const uint32_t high = byte_at(high_bits, i / 128 * 32 + i % 32) >> (part * 2) & 3U;
    const float part_scale = scale * static_cast<float>(signed_at(scales, i / 16));
    out[i] = part_scale * static_cast<float>(static_cast<int32_t>(low | high << 4) - 32);
  }
}

// f16 scale, two high bits of eight scales, four bytes of their low bits, 128 bytes: eight parts of
// 16 bytes, each as in IQ4_NL.
void dequantize_iq4_xs(const std::byte* block, float* out) {
  const std::byte* codes = block + 8;
  const float scale = half_at(block, 0);
  for (size_t i = 0; i < kElements; ++i) {
    const size_t part = i / 32;
    const float part_scale = scale * static_cast<float>(iq4_xs_scale(block, part));
    const uint32_t code = byte_at(codes, part * 16 + i % 16) >> (i % 32 / 16 * 4) & 15U;
    out[i] = part_scale * static_cast<float>(kIq4Values[code]);
  }
}

}  // namespace reprise::weights::gguf
