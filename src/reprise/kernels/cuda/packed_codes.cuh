#pragma once

#include "reprise/kernels/cuda/block.cuh"
#include "reprise/tensor/block_panels.h"

// How the codes of block_panels.h become signed bytes and float32 scales in registers.
namespace reprise::kernels::cuda {

enum class CodePlanes : uint8_t { byte, nibble, nibble_one, nibble_two, two, two_one, iq4, fp4 };

struct CodeTraits {
  CodePlanes planes = CodePlanes::nibble;
  bool has_halves = false;  // whether the halves of a block have scales of their own
  bool has_least = false;   // whether a least value is added to all elements
  uint32_t offset = 0;      // what is subtracted from a code; bytes and tables need none
};

constexpr CodeTraits code_traits(PanelFormat format) {
  switch (format) {
    case PanelFormat::q8_0:
    case PanelFormat::int8_g128:
      return {.planes = CodePlanes::byte};
    case PanelFormat::q4_0:
      return {.planes = CodePlanes::nibble, .offset = 8};
    case PanelFormat::q5_0:
      return {.planes = CodePlanes::nibble_one, .offset = 16};
    case PanelFormat::iq4_nl:
    case PanelFormat::iq4_xs:
      return {.planes = CodePlanes::iq4};
    case PanelFormat::mxfp4:
      return {.planes = CodePlanes::fp4};
    case PanelFormat::nvfp4:
      return {.planes = CodePlanes::fp4, .has_halves = true};
    case PanelFormat::q5_1:
    case PanelFormat::q5_k:
      return {.planes = CodePlanes::nibble_one, .has_least = true};
    case PanelFormat::q2_k:
      return {.planes = CodePlanes::two, .has_halves = true, .has_least = true};
    case PanelFormat::q3_k:
      return {.planes = CodePlanes::two_one, .has_halves = true, .offset = 4};
    case PanelFormat::q6_k:
      return {.planes = CodePlanes::nibble_two, .has_halves = true, .offset = 32};
    default:
      return {.planes = CodePlanes::nibble, .has_least = true};
  }
}

/// What a lane reads of a block of 32 elements: columns 2 * pair and the next one, and of these the
/// groups `member` and 4 + member. With pair = lane / 4 and member = lane % 4 the words of a warp
/// are the left operand of multiply_codes; its row r < 8 is column 2r, and row 8 + r column 2r + 1.
struct BlockCodes {
  uint32_t codes[4];  // [group][column]
  float scale[2][2];  // [half of the block][column]; without halves only the first
  float least[2][2];
};

/// Sixteen values of one byte as words.
constexpr uint32_t table_word(const int8_t (&values)[16], int first) {
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    word |= static_cast<uint32_t>(static_cast<uint8_t>(values[first + i])) << (8 * i);
  }
  return word;
}

struct CodeTable {
  uint32_t word[4];
};
constexpr CodeTable kIq4Table = {{table_word(kIq4Values, 0),
                                  table_word(kIq4Values, 4),
                                  table_word(kIq4Values, 8),
                                  table_word(kIq4Values, 12)}};
constexpr CodeTable kFp4Table = {{table_word(kFp4Values, 0),
                                  table_word(kFp4Values, 4),
                                  table_word(kFp4Values, 8),
                                  table_word(kFp4Values, 12)}};

/// The values for which the four nibbles in the low half of `nibbles` stand.
REPRISE_DEVICE uint32_t look_up_four(const CodeTable& table, uint32_t nibbles) {
  const uint32_t index = nibbles & 0x7777U;
  const uint32_t low = permute_bytes(table.word[0], table.word[1], index);
  const uint32_t high = permute_bytes(table.word[2], table.word[3], index);
  return permute_bytes(low, high, 0x3210U | ((nibbles & 0x8888U) >> 1));
}
/// Those of all low nibbles of a word, and those of all high nibbles.
REPRISE_DEVICE void look_up(const CodeTable& table, uint32_t word, uint32_t& low, uint32_t& high) {
  const uint32_t first = look_up_four(table, word);
  const uint32_t second = look_up_four(table, word >> 16);
  low = permute_bytes(first, second, 0x6420U);
  high = permute_bytes(first, second, 0x7531U);
}

/// Bytes below 128 minus an offset of at most 128, as signed bytes.
REPRISE_DEVICE uint32_t minus_offset(uint32_t codes, uint32_t offset) {
  return ((codes | 0x80808080U) - offset * 0x01010101U) ^ 0x80808080U;
}

REPRISE_DEVICE void load_nibbles(const char* plane, int pair, int member, uint32_t (&codes)[4]) {
  const Words2 words = load_two_words(plane + member * 64 + pair * 8);
  REPRISE_UNROLL
  for (int i = 0; i < 2; ++i) {
    codes[i] = words.word[i] & 0x0f0f0f0fU;
    codes[2 + i] = (words.word[i] >> 4) & 0x0f0f0f0fU;
  }
}

/// Bits kBit of all codes, from a plane of one bit for each group.
template <int kBit>
REPRISE_DEVICE void add_one_bit(const char* plane, int pair, int member, uint32_t (&codes)[4]) {
  const Words2 words = load_two_words(plane + pair * 8);
  REPRISE_UNROLL
  for (int i = 0; i < 2; ++i) {
    codes[i] |= ((words.word[i] >> member) & 0x01010101U) << kBit;
    codes[2 + i] |= ((words.word[i] >> (4 + member)) & 0x01010101U) << kBit;
  }
}

/// Bits kBit and kBit + 1, from a plane of two bits for each group.
template <int kBit>
REPRISE_DEVICE void add_two_bits(const char* plane, int pair, int member, uint32_t (&codes)[4]) {
  REPRISE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const Words2 words = load_two_words(plane + half * 64 + pair * 8);
    REPRISE_UNROLL
    for (int i = 0; i < 2; ++i) {
      codes[2 * half + i] |= ((words.word[i] >> (2 * member)) & 0x03030303U) << kBit;
    }
  }
}

template <PanelFormat kFormat>
REPRISE_DEVICE void load_codes(const char* block, int pair, int member, uint32_t (&codes)[4]) {
  constexpr CodeTraits kTraits = code_traits(kFormat);
  constexpr CodePlanes kPlanes = kTraits.planes;
  if constexpr (kPlanes == CodePlanes::byte) {
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Words2 words = load_two_words(block + (4 * half + member) * 64 + pair * 8);
      codes[2 * half] = words.word[0] ^ 0x80808080U;
      codes[2 * half + 1] = words.word[1] ^ 0x80808080U;
    }
    return;
  } else if constexpr (kPlanes == CodePlanes::iq4 || kPlanes == CodePlanes::fp4) {
    constexpr CodeTable kTable = kPlanes == CodePlanes::iq4 ? kIq4Table : kFp4Table;
    const Words2 words = load_two_words(block + member * 64 + pair * 8);
    look_up(kTable, words.word[0], codes[0], codes[2]);
    look_up(kTable, words.word[1], codes[1], codes[3]);
    return;
  } else if constexpr (kPlanes == CodePlanes::two || kPlanes == CodePlanes::two_one) {
    REPRISE_UNROLL
    for (uint32_t& word : codes) word = 0;
    add_two_bits<0>(block, pair, member, codes);
    if constexpr (kPlanes == CodePlanes::two_one) add_one_bit<2>(block + 128, pair, member, codes);
  } else {
    load_nibbles(block, pair, member, codes);
    if constexpr (kPlanes == CodePlanes::nibble_one) {
      add_one_bit<4>(block + 256, pair, member, codes);
    } else if constexpr (kPlanes == CodePlanes::nibble_two) {
      add_two_bits<4>(block + 256, pair, member, codes);
    }
  }
  if constexpr (kTraits.offset != 0) {
    REPRISE_UNROLL
    for (uint32_t& word : codes) word = minus_offset(word, kTraits.offset);
  }
}

/// Two neighbouring entries, one for each of a lane's columns, of a list with one for each column.
struct ColumnPair {
  float of[2];
};
REPRISE_DEVICE ColumnPair half_pair(const char* entries, int pair) {
  const uint32_t word = load_word(entries + 4 * pair);
  return {{as_float(Float16{static_cast<uint16_t>(word)}),
           as_float(Float16{static_cast<uint16_t>(word >> 16)})}};
}
REPRISE_DEVICE ColumnPair float_pair(const char* entries, int pair) {
  const Words2 words = load_two_words(entries + 8 * pair);
  return {{float_of(words.word[0]), float_of(words.word[1])}};
}
REPRISE_DEVICE uint32_t byte_pair(const char* entries, int pair) {
  return load_word(entries + pair / 2 * 4) >> (pair % 2 * 16);
}
REPRISE_DEVICE ColumnPair unsigned_pair(const char* entries, int pair) {
  const uint32_t bytes = byte_pair(entries, pair);
  return {{static_cast<float>(bytes & 0xffU), static_cast<float>((bytes >> 8) & 0xffU)}};
}
REPRISE_DEVICE ColumnPair signed_pair(const char* entries, int pair) {
  const uint32_t bytes = byte_pair(entries, pair);
  return {{static_cast<float>(static_cast<int8_t>(bytes)),
           static_cast<float>(static_cast<int8_t>(bytes >> 8))}};
}
/// Powers of two with the exponents `entries` - 128.
REPRISE_DEVICE ColumnPair power_pair(const char* entries, int pair) {
  const uint32_t bytes = byte_pair(entries, pair);
  ColumnPair powers;
  REPRISE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const uint32_t e = (bytes >> (8 * i)) & 0xffU;
    powers.of[i] = float_of(e < 2 ? 0x00200000U << e : (e - 1) << 23);
  }
  return powers;
}
REPRISE_DEVICE ColumnPair times(const ColumnPair& a, const ColumnPair& b) {
  return {{a.of[0] * b.of[0], a.of[1] * b.of[1]}};
}
REPRISE_DEVICE ColumnPair negative(const ColumnPair& a) { return {{-a.of[0], -a.of[1]}}; }

/// The low or the high nibbles of bytes.
REPRISE_DEVICE ColumnPair nibble_pair(const char* entries, int pair, int shift) {
  const uint32_t bytes = byte_pair(entries, pair) >> shift;
  return {{static_cast<float>(bytes & 15U), static_cast<float>((bytes >> 8) & 15U)}};
}

template <PanelFormat kFormat>
REPRISE_DEVICE ColumnPair load_scales(const char* head, const char* own, int half, int pair) {
  if constexpr (kFormat == PanelFormat::int8_g128) {
    return float_pair(head, pair);
  } else if constexpr (kFormat == PanelFormat::nvfp4) {
    return times(float_pair(head, pair), half_pair(own + half * 32, pair));
  } else if constexpr (kFormat == PanelFormat::mxfp4) {
    return power_pair(own, pair);
  } else if constexpr (kFormat == PanelFormat::int4_g32 || kFormat == PanelFormat::int4_g128) {
    return half_pair(head, pair);
  } else if constexpr (kFormat == PanelFormat::q2_k) {
    return times(half_pair(head, pair), nibble_pair(own + half * 16, pair, 0));
  } else if constexpr (kFormat == PanelFormat::q4_k || kFormat == PanelFormat::q5_k) {
    return times(half_pair(head, pair), unsigned_pair(own, pair));
  } else if constexpr (panel_layout(kFormat).super_blocks == 8) {
    return times(half_pair(head, pair), signed_pair(own + half * 16, pair));
  } else {
    return half_pair(own, pair);
  }
}

/// \pre code_traits(kFormat).has_least
template <PanelFormat kFormat>
REPRISE_DEVICE ColumnPair load_least(const char* head, const char* own, int half, int pair) {
  if constexpr (kFormat == PanelFormat::int4_g32 || kFormat == PanelFormat::int4_g128) {
    return negative(times(half_pair(head, pair), unsigned_pair(head + 32, pair)));
  } else if constexpr (kFormat == PanelFormat::q2_k) {
    return negative(times(half_pair(head + 32, pair), nibble_pair(own + half * 16, pair, 4)));
  } else if constexpr (panel_layout(kFormat).super_blocks == 8) {
    return negative(times(half_pair(head + 32, pair), unsigned_pair(own + 16, pair)));
  } else {
    return half_pair(own + 32, pair);
  }
}

template <PanelFormat kFormat>
REPRISE_DEVICE BlockCodes load_block(const char* head, const char* block, int pair, int member) {
  constexpr CodeTraits kTraits = code_traits(kFormat);
  const char* own = block + kPanelColumns * panel_layout(kFormat).code_bytes;
  BlockCodes result;
  load_codes<kFormat>(block, pair, member, result.codes);
  REPRISE_UNROLL
  for (int half = 0; half < (kTraits.has_halves ? 2 : 1); ++half) {
    const ColumnPair scales = load_scales<kFormat>(head, own, half, pair);
    ColumnPair least = {};
    if constexpr (kTraits.has_least) least = load_least<kFormat>(head, own, half, pair);
    REPRISE_UNROLL
    for (int i = 0; i < 2; ++i) {
      result.scale[half][i] = scales.of[i];
      result.least[half][i] = least.of[i];
    }
  }
  return result;
}

/// Calls act(Number) for a codec of blocks that is known only when the kernel runs; the number is
/// `kFormat` of it.
template <PanelFormat kValue>
struct FormatNumber {
  static constexpr PanelFormat kFormat = kValue;
};
template <typename Act>
REPRISE_DEVICE void with_format(PanelFormat format, const Act& act) {
  switch (format) {
#define X(name, family, ...)                                            \
  case PanelFormat::name:                                               \
    if constexpr (WeightFamily::family == WeightFamily::block_panels) { \
      act(FormatNumber<PanelFormat::name>{});                           \
    }                                                                   \
    break;
#include "reprise/tensor/codec_list.inl"
#undef X
  }
}

/// A panel of a weight in blocks, and the sizes of its super-blocks in bytes.
struct WeightPanel {
  const char* bytes;
  PanelFormat format;
  int super_blocks;
  int head_bytes;
  int block_bytes;
  int columns;  // at most kPanelColumns
  int64_t column;

  [[nodiscard]] REPRISE_DEVICE int64_t super_bytes() const {
    return head_bytes + int64_t{super_blocks} * block_bytes;
  }
};

/// Panel `in_part` of a part of a weight that begins with `header`.
REPRISE_DEVICE WeightPanel panel_of_part(const PanelHeader* header,
                                         const PanelHeader::Part& part,
                                         int64_t in_part) {
  const PanelLayout layout = panel_layout(part.format);
  WeightPanel panel = {
      .bytes = nullptr,
      .format = part.format,
      .super_blocks = layout.super_blocks,
      .head_bytes = static_cast<int>(kPanelColumns * layout.head_bytes),
      .block_bytes = static_cast<int>(kPanelColumns * (layout.code_bytes + layout.scale_bytes)),
      .columns = static_cast<int>(min_of(kPanelColumns, part.columns - in_part * kPanelColumns)),
      .column = part.first_column + in_part * kPanelColumns};
  const int64_t supers = header->depth / (kPanelBlock * panel.super_blocks);
  panel.bytes =
      reinterpret_cast<const char*>(header) + part.offset + in_part * supers * panel.super_bytes();
  return panel;
}

REPRISE_DEVICE WeightPanel find_panel(const void* weight, int64_t index) {
  const auto* header = static_cast<const PanelHeader*>(weight);
  int i = 0;
  while (i + 1 < header->num_parts && index >= header->parts[i + 1].first_panel) ++i;
  const PanelHeader::Part& part = header->parts[i];
  return panel_of_part(header, part, index - part.first_panel);
}

REPRISE_DEVICE WeightPanel find_panel_of_column(const void* weight, int64_t column) {
  const auto* header = static_cast<const PanelHeader*>(weight);
  int i = 0;
  while (i + 1 < header->num_parts && column >= header->parts[i + 1].first_column) ++i;
  const PanelHeader::Part& part = header->parts[i];
  return panel_of_part(header, part, (column - part.first_column) / kPanelColumns);
}

}  // namespace reprise::kernels::cuda
