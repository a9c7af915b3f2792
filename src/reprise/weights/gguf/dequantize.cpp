#include "reprise/weights/gguf/dequantize.h"

#include "reprise/base/assert.h"
#include "reprise/weights/gguf/block_bytes.h"

// Source of the layouts: ggml, src/ggml-common.h and the dequantize_row_* functions of
// src/ggml-quants.c. A block of 32 has elements j and j + 16 in the two halves of byte j.
namespace reprise::weights::gguf {
namespace {

constexpr size_t kHalf = 16;  // half the elements of a small block

void dequantize_f32(const std::byte* block, float* out) { std::memcpy(out, block, sizeof *out); }

void dequantize_f16(const std::byte* block, float* out) { *out = half_at(block, 0); }

void dequantize_bf16(const std::byte* block, float* out) {
  BFloat16 value;
  std::memcpy(&value, block, sizeof value);
  *out = to_float(value);
}

// f16 scale, 16 bytes
void dequantize_q4_0(const std::byte* block, float* out) {
  const float scale = half_at(block, 0);
  for (size_t j = 0; j < kHalf; ++j) {
    const uint32_t pair = byte_at(block, 2 + j);
    out[j] = scale * static_cast<float>(static_cast<int32_t>(pair & 15U) - 8);
    out[kHalf + j] = scale * static_cast<float>(static_cast<int32_t>(pair >> 4) - 8);
  }
}

// f16 scale, f16 least value, 16 bytes
void dequantize_q4_1(const std::byte* block, float* out) {
  const float scale = half_at(block, 0);
  const float least = half_at(block, 2);
  for (size_t j = 0; j < kHalf; ++j) {
    const uint32_t pair = byte_at(block, 4 + j);
    out[j] = scale * static_cast<float>(pair & 15U) + least;
    out[kHalf + j] = scale * static_cast<float>(pair >> 4) + least;
  }
}

// Codes of five bits for elements j and j + 16: bit i of `high` is the highest bit of element i.
struct FiveBits {
  uint32_t low;
  uint32_t high;
};

FiveBits five_bits(uint32_t pair, uint32_t high, size_t j) {
  return {.low = (pair & 15U) | ((high >> j & 1U) << 4),
          .high = (pair >> 4) | ((high >> (j + kHalf) & 1U) << 4)};
}

// f16 scale, 32 high bits, 16 bytes
void dequantize_q5_0(const std::byte* block, float* out) {
  const float scale = half_at(block, 0);
  const uint32_t high = word_at(block, 2);
  for (size_t j = 0; j < kHalf; ++j) {
    const FiveBits codes = five_bits(byte_at(block, 6 + j), high, j);
    out[j] = scale * static_cast<float>(static_cast<int32_t>(codes.low) - 16);
    out[kHalf + j] = scale * static_cast<float>(static_cast<int32_t>(codes.high) - 16);
  }
}

// f16 scale, f16 least value, 32 high bits, 16 bytes
void dequantize_q5_1(const std::byte* block, float* out) {
  const float scale = half_at(block, 0);
  const float least = half_at(block, 2);
  const uint32_t high = word_at(block, 4);
  for (size_t j = 0; j < kHalf; ++j) {
    const FiveBits codes = five_bits(byte_at(block, 8 + j), high, j);
    out[j] = scale * static_cast<float>(codes.low) + least;
    out[kHalf + j] = scale * static_cast<float>(codes.high) + least;
  }
}

// f16 scale, 32 signed bytes
void dequantize_q8_0(const std::byte* block, float* out) {
  const float scale = half_at(block, 0);
  for (size_t j = 0; j < 2 * kHalf; ++j)
    out[j] = scale * static_cast<float>(signed_at(block, 2 + j));
}

// f16 scale, 16 bytes
void dequantize_iq4_nl(const std::byte* block, float* out) {
  const float scale = half_at(block, 0);
  for (size_t j = 0; j < kHalf; ++j) {
    const uint32_t pair = byte_at(block, 2 + j);
    out[j] = scale * static_cast<float>(kIq4Values[pair & 15U]);
    out[kHalf + j] = scale * static_cast<float>(kIq4Values[pair >> 4]);
  }
}

// Exponent of the scale (E8M0), 16 bytes of E2M1 codes. The table has twice the values of the
// codes, so the scale is half of 2^(exponent - 127).
void dequantize_mxfp4(const std::byte* block, float* out) {
  constexpr int8_t kDoubledValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const uint32_t exponent = byte_at(block, 0);
  const float scale = bits_to_float(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23);
  for (size_t j = 0; j < kHalf; ++j) {
    const uint32_t pair = byte_at(block, 1 + j);
    out[j] = scale * static_cast<float>(kDoubledValues[pair & 15U]);
    out[kHalf + j] = scale * static_cast<float>(kDoubledValues[pair >> 4]);
  }
}

using DequantizeBlock = void (*)(const std::byte* block, float* out);

DequantizeBlock function_of(BlockFormat format) {
  switch (format) {
    case BlockFormat::f32:
      return dequantize_f32;
    case BlockFormat::f16:
      return dequantize_f16;
    case BlockFormat::bf16:
      return dequantize_bf16;
    case BlockFormat::q4_0:
      return dequantize_q4_0;
    case BlockFormat::q4_1:
      return dequantize_q4_1;
    case BlockFormat::q5_0:
      return dequantize_q5_0;
    case BlockFormat::q5_1:
      return dequantize_q5_1;
    case BlockFormat::q8_0:
      return dequantize_q8_0;
    case BlockFormat::q2_k:
      return dequantize_q2_k;
    case BlockFormat::q3_k:
      return dequantize_q3_k;
    case BlockFormat::q4_k:
      return dequantize_q4_k;
    case BlockFormat::q5_k:
      return dequantize_q5_k;
    case BlockFormat::q6_k:
      return dequantize_q6_k;
    case BlockFormat::iq4_nl:
      return dequantize_iq4_nl;
    case BlockFormat::iq4_xs:
      return dequantize_iq4_xs;
    case BlockFormat::mxfp4:
      return dequantize_mxfp4;
  }
  return nullptr;
}

}  // namespace

void dequantize(BlockFormat format, std::span<const std::byte> blocks, std::span<float> out) {
  const BlockSize size = block_size(format);
  const size_t num_blocks = blocks.size() / size.bytes;
  REPRISE_ASSERT(blocks.size() % size.bytes == 0 && out.size() == num_blocks * size.num_elements,
                 "{} bytes of {} do not fit a destination of {} values",
                 blocks.size(),
                 block_format_name(format),
                 out.size());
  const DequantizeBlock dequantize_block = function_of(format);
  for (size_t i = 0; i < num_blocks; ++i) {
    dequantize_block(blocks.data() + i * size.bytes, out.data() + i * size.num_elements);
  }
}

}  // namespace reprise::weights::gguf
