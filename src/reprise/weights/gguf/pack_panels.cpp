#include "reprise/weights/gguf/pack_panels.h"

#include <array>
#include <cstring>

#include "reprise/base/assert.h"
#include "reprise/weights/codecs/panel_column.h"
#include "reprise/weights/gguf/block_bytes.h"
#include "reprise/weights/gguf/scale_and_least.h"

// The layouts in the file are described in dequantize.cpp and dequantize_k.cpp.
namespace reprise::weights::gguf {
namespace {

using Codes = std::array<uint8_t, kPanelBlock>;

constexpr size_t kHalfBlock = 16;  // half the elements of a small block
constexpr size_t kParts = 8;       // blocks of 32 elements in a block of 256

Float16 f16_at(const std::byte* block, size_t index) {
  Float16 half;
  std::memcpy(&half, block + index, sizeof half);
  return half;
}

uint8_t low_byte(uint32_t value) { return static_cast<uint8_t>(value); }

// Codes of four bits for 32 elements in 16 bytes: elements j and j + 16 are in byte j.
Codes small_nibbles(const std::byte* bytes) {
  Codes codes;
  for (size_t j = 0; j < kHalfBlock; ++j) {
    codes[j] = low_byte(byte_at(bytes, j) & 15U);
    codes[kHalfBlock + j] = low_byte(byte_at(bytes, j) >> 4);
  }
  return codes;
}

// The same with a fifth bit for each element.
Codes small_five_bits(const std::byte* bytes, uint32_t fifth_bits) {
  Codes codes = small_nibbles(bytes);
  for (size_t j = 0; j < codes.size(); ++j) codes[j] |= low_byte((fifth_bits >> j & 1U) << 4);
  return codes;
}

// Bits [shift, shift + bits) of each of 32 bytes.
Codes shifted(const std::byte* bytes, size_t shift, uint32_t mask) {
  Codes codes;
  for (size_t j = 0; j < codes.size(); ++j) codes[j] = low_byte(byte_at(bytes, j) >> shift & mask);
  return codes;
}

void add_bits(Codes& codes, const std::byte* bytes, size_t shift, uint32_t mask, size_t to) {
  for (size_t j = 0; j < codes.size(); ++j) {
    codes[j] |= low_byte((byte_at(bytes, j) >> shift & mask) << to);
  }
}

// Each function writes one block of the file: block `i` of the row.

void pack_q8_0(const std::byte* block, int64_t i, PanelColumn& to) {
  Codes codes;
  // The codes in the file are signed; the kernels' products take unsigned codes.
  for (size_t j = 0; j < codes.size(); ++j) codes[j] = low_byte(byte_at(block, 2 + j) ^ 0x80U);
  to.write_codes(i, codes.data());
  to.write_scale(i, 0, f16_at(block, 0));
}

// Q4_0 and IQ4_NL
void pack_nibbles(const std::byte* block, int64_t i, PanelColumn& to) {
  to.write_codes(i, small_nibbles(block + 2).data());
  to.write_scale(i, 0, f16_at(block, 0));
}

void pack_q4_1(const std::byte* block, int64_t i, PanelColumn& to) {
  to.write_codes(i, small_nibbles(block + 4).data());
  to.write_scale(i, 0, f16_at(block, 0));
  to.write_scale(i, 2 * kPanelColumns, f16_at(block, 2));
}

void pack_q5_0(const std::byte* block, int64_t i, PanelColumn& to) {
  to.write_codes(i, small_five_bits(block + 6, word_at(block, 2)).data());
  to.write_scale(i, 0, f16_at(block, 0));
}

void pack_q5_1(const std::byte* block, int64_t i, PanelColumn& to) {
  to.write_codes(i, small_five_bits(block + 8, word_at(block, 4)).data());
  to.write_scale(i, 0, f16_at(block, 0));
  to.write_scale(i, 2 * kPanelColumns, f16_at(block, 2));
}

// The codes of part j of a block of 256. Each byte of the block holds four codes of two bits.
Codes two_bit_part(const std::byte* bytes, size_t j) {
  return shifted(bytes + j / 4 * 32, j % 4 * 2, 3);
}

void pack_q2_k(const std::byte* block, int64_t i, PanelColumn& to) {
  to.write_head(i, 0, f16_at(block, 80));
  to.write_head(i, 2 * kPanelColumns, f16_at(block, 82));
  for (size_t j = 0; j < kParts; ++j) {
    const int64_t at = i * 8 + static_cast<int64_t>(j);
    to.write_codes(at, two_bit_part(block + 16, j).data());
    to.write_scale(at, 0, low_byte(byte_at(block, 2 * j)));
    to.write_scale(at, kPanelColumns, low_byte(byte_at(block, 2 * j + 1)));
  }
}

void pack_q3_k(const std::byte* block, int64_t i, PanelColumn& to) {
  to.write_head(i, 0, f16_at(block, 108));
  for (size_t j = 0; j < kParts; ++j) {
    const int64_t at = i * 8 + static_cast<int64_t>(j);
    Codes codes = two_bit_part(block + 32, j);
    add_bits(codes, block, j, 1, 2);
    to.write_codes(at, codes.data());
    to.write_scale(at, 0, static_cast<int8_t>(q3_k_scale(block + 96, 2 * j)));
    to.write_scale(at, kPanelColumns, static_cast<int8_t>(q3_k_scale(block + 96, 2 * j + 1)));
  }
}

// Packs the heads and scales of Q4_K and Q5_K, which have the same layout.
void pack_scales_and_leasts(const std::byte* block, int64_t i, PanelColumn& to) {
  to.write_head(i, 0, f16_at(block, 0));
  to.write_head(i, 2 * kPanelColumns, f16_at(block, 2));
  for (size_t j = 0; j < kParts; ++j) {
    const ScaleAndLeast part = scale_and_least(block + 4, j);
    const int64_t at = i * 8 + static_cast<int64_t>(j);
    to.write_scale(at, 0, low_byte(part.scale));
    to.write_scale(at, kPanelColumns, low_byte(part.least));
  }
}

void pack_q4_k(const std::byte* block, int64_t i, PanelColumn& to) {
  pack_scales_and_leasts(block, i, to);
  for (size_t j = 0; j < kParts; ++j) {
    to.write_codes(i * 8 + static_cast<int64_t>(j),
                   shifted(block + 16 + j / 2 * 32, j % 2 * 4, 15).data());
  }
}

void pack_q5_k(const std::byte* block, int64_t i, PanelColumn& to) {
  pack_scales_and_leasts(block, i, to);
  for (size_t j = 0; j < kParts; ++j) {
    Codes codes = shifted(block + 48 + j / 2 * 32, j % 2 * 4, 15);
    add_bits(codes, block + 16, j, 1, 4);
    to.write_codes(i * 8 + static_cast<int64_t>(j), codes.data());
  }
}

void pack_q6_k(const std::byte* block, int64_t i, PanelColumn& to) {
  to.write_head(i, 0, f16_at(block, 208));
  for (size_t j = 0; j < kParts; ++j) {
    const int64_t at = i * 8 + static_cast<int64_t>(j);
    const size_t quarter = j % 4;
    Codes codes = shifted(block + j / 4 * 64 + quarter % 2 * 32, quarter / 2 * 4, 15);
    add_bits(codes, block + 128 + j / 4 * 32, quarter * 2, 3, 4);
    to.write_codes(at, codes.data());
    to.write_scale(at, 0, low_byte(byte_at(block, 192 + 2 * j)));
    to.write_scale(at, kPanelColumns, low_byte(byte_at(block, 192 + 2 * j + 1)));
  }
}

void pack_iq4_xs(const std::byte* block, int64_t i, PanelColumn& to) {
  to.write_head(i, 0, f16_at(block, 0));
  for (size_t j = 0; j < kParts; ++j) {
    const int64_t at = i * 8 + static_cast<int64_t>(j);
    to.write_codes(at, small_nibbles(block + 8 + j * kHalfBlock).data());
    to.write_scale(at, 0, static_cast<int8_t>(iq4_xs_scale(block, j)));
  }
}

void pack_mxfp4(const std::byte* block, int64_t i, PanelColumn& to) {
  to.write_codes(i, small_nibbles(block + 1).data());
  to.write_scale(i, 0, low_byte(byte_at(block, 0)));
}

struct PackedFormat {
  BlockFormat format;
  PanelFormat panels;
  void (*pack)(const std::byte* block, int64_t i, PanelColumn& to);
};

constexpr std::array<PackedFormat, 13> kPackedFormats = {{
    {BlockFormat::q8_0, PanelFormat::q8_0, pack_q8_0},
    {BlockFormat::q4_0, PanelFormat::q4_0, pack_nibbles},
    {BlockFormat::q4_1, PanelFormat::q4_1, pack_q4_1},
    {BlockFormat::q5_0, PanelFormat::q5_0, pack_q5_0},
    {BlockFormat::q5_1, PanelFormat::q5_1, pack_q5_1},
    {BlockFormat::iq4_nl, PanelFormat::iq4_nl, pack_nibbles},
    {BlockFormat::iq4_xs, PanelFormat::iq4_xs, pack_iq4_xs},
    {BlockFormat::q2_k, PanelFormat::q2_k, pack_q2_k},
    {BlockFormat::q3_k, PanelFormat::q3_k, pack_q3_k},
    {BlockFormat::q4_k, PanelFormat::q4_k, pack_q4_k},
    {BlockFormat::q5_k, PanelFormat::q5_k, pack_q5_k},
    {BlockFormat::q6_k, PanelFormat::q6_k, pack_q6_k},
    {BlockFormat::mxfp4, PanelFormat::mxfp4, pack_mxfp4},
}};

const PackedFormat* find_packed(BlockFormat format) {
  for (const PackedFormat& packed : kPackedFormats) {
    if (packed.format == format) return &packed;
  }
  return nullptr;
}

}  // namespace

std::optional<PanelFormat> panel_format_of(BlockFormat format) noexcept {
  const PackedFormat* packed = find_packed(format);
  return packed == nullptr ? std::nullopt : std::optional(packed->panels);
}

void pack_row(BlockFormat format,
              std::span<const std::byte> blocks,
              int64_t row,
              std::span<std::byte> panels) {
  const PackedFormat* packed = find_packed(format);
  REPRISE_ASSERT(packed != nullptr, "{} is not packed", block_format_name(format));
  const BlockSize size = block_size(format);
  const auto num_blocks = static_cast<int64_t>(blocks.size() / size.bytes);
  PanelColumn column(packed->panels, panels, num_blocks * size.num_elements, row);
  for (int64_t i = 0; i < num_blocks; ++i) {
    packed->pack(blocks.data() + static_cast<size_t>(i) * size.bytes, i, column);
  }
}

}  // namespace reprise::weights::gguf
