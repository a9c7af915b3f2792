#include "reprise/weights/codecs/panel_column.h"

#include <algorithm>
#include <array>

#include "reprise/base/assert.h"
#include "reprise/weights/convert.h"

namespace reprise::weights {
namespace {

using GroupCodes = std::array<uint32_t, 8>;  // by group: four codes of one byte

constexpr int64_t kVectorBytes = 64;

// Writes the words of one plane; `word_of(vector)` returns the column's bytes of a vector.
template <typename WordOf>
std::byte* write_plane(std::byte* to, int num_vectors, const WordOf& word_of) {
  for (int v = 0; v < num_vectors; ++v, to += kVectorBytes) {
    const uint32_t word = word_of(static_cast<size_t>(v));
    std::memcpy(to, &word, sizeof word);
  }
  return to;
}

std::byte* write_bytes(std::byte* to, const GroupCodes& codes) {
  return write_plane(to, 8, [&](size_t v) { return codes[v]; });
}

std::byte* write_nibbles(std::byte* to, const GroupCodes& codes) {
  constexpr uint32_t kLow = 0x0f0f0f0f;
  return write_plane(
      to, 4, [&](size_t v) { return (codes[v] & kLow) | (codes[v + 4] & kLow) << 4; });
}

std::byte* write_two_bits(std::byte* to, const GroupCodes& codes, int lowest_bit) {
  return write_plane(to, 2, [&](size_t v) {
    uint32_t word = 0;
    for (size_t g = 0; g < 4; ++g) {
      word |= (codes[4 * v + g] >> lowest_bit & 0x03030303U) << (2 * g);
    }
    return word;
  });
}

std::byte* write_one_bit(std::byte* to, const GroupCodes& codes, int bit) {
  return write_plane(to, 1, [&](size_t) {
    uint32_t word = 0;
    for (size_t g = 0; g < 8; ++g) word |= (codes[g] >> bit & 0x01010101U) << g;
    return word;
  });
}

}  // namespace

PanelColumn::PanelColumn(PanelFormat format,
                         std::span<std::byte> panels,
                         int64_t depth,
                         int64_t column)
    : layout_(panel_layout(format)),
      column_(column % kPanelColumns),
      tail_offset_(panel_bytes(format, kPanelColumns, depth) - kPanelColumns * layout_.tail_bytes) {
  const int64_t panel_size = tail_offset_ + kPanelColumns * layout_.tail_bytes;
  const int64_t begin = column / kPanelColumns * panel_size;
  REPRISE_ASSERT(static_cast<uint64_t>(begin + panel_size) <= panels.size(),
                 "column {} is outside of {} bytes of panels",
                 column,
                 panels.size());
  panel_ = panels.data() + begin;
}

void PanelColumn::write_codes(int64_t block, const uint8_t* codes) {
  GroupCodes words;
  std::memcpy(words.data(), codes, sizeof words);
  std::byte* to = block_at(block) + column_ * 4;
  switch (layout_.code_bytes) {
    case 32:
      write_bytes(to, words);
      break;
    case 24:
      write_two_bits(write_nibbles(to, words), words, 4);
      break;
    case 20:
      write_one_bit(write_nibbles(to, words), words, 4);
      break;
    case 16:
      write_nibbles(to, words);
      break;
    case 12:
      write_one_bit(write_two_bits(to, words, 0), words, 2);
      break;
    case 8:
      write_two_bits(to, words, 0);
      break;
    default:
      REPRISE_ASSERT(false, "codes of {} bytes", layout_.code_bytes);
  }
}

namespace {

void write_int8_row(PanelColumn& to, std::span<const uint8_t> codes, float scale) {
  std::array<uint8_t, kPanelBlock> block;
  int32_t sum = 0;
  for (size_t k = 0; k < codes.size(); k += block.size()) {
    for (size_t i = 0; i < block.size(); ++i) {
      block[i] = static_cast<uint8_t>(codes[k + i] - 128);
      sum += static_cast<int8_t>(block[i]);
    }
    to.write_codes(static_cast<int64_t>(k) / kPanelBlock, block.data());
  }
  to.write_tail(0, scale);
  to.write_tail(4 * kPanelColumns, sum);
}

}  // namespace

void write_integer_row(PanelFormat format,
                       std::span<std::byte> panels,
                       int64_t column,
                       std::span<const uint8_t> codes,
                       const IntegerGroups& groups) {
  const auto depth = static_cast<int64_t>(codes.size());
  const int64_t head_elements = panel_group_elements(format);
  PanelColumn to(format, panels, depth, column);
  if (format == PanelFormat::int8_rows) return write_int8_row(to, codes, groups.scales[0]);
  for (int64_t k = 0; k < depth; k += kPanelBlock) {
    to.write_codes(k / kPanelBlock, codes.data() + k);
    if (k % head_elements != 0) continue;
    const int64_t head = k / head_elements;
    const auto group = static_cast<size_t>(k / groups.group_size);
    if (format == PanelFormat::int8_g128) {
      to.write_head(head, 0, groups.scales[group]);
    } else {
      to.write_head(head, 0, Float16{f32_to_f16(groups.scales[group])});
      to.write_head(head, 2 * kPanelColumns, static_cast<uint8_t>(groups.zeros[group]));
    }
  }
}

void clear_unused_columns(PanelFormat format,
                          std::span<std::byte> panels,
                          int64_t depth,
                          int64_t columns) {
  if (columns % kPanelColumns == 0) return;
  const auto last = static_cast<size_t>(panel_bytes(format, kPanelColumns, depth));
  std::ranges::fill(panels.last(last), std::byte{0});
}

}  // namespace reprise::weights
