#pragma once

#include <cstdint>

#include "reprise/tensor/codecs.h"

/// The layout in memory of weights that kernels read packed, in blocks of 32 elements, and of
/// activations that are quantised in the same blocks.
///
/// The memory of a packed weight begins with a PanelHeader, which names the parts: neighbouring
/// outputs in one format. A part is a list of panels, and a panel has
/// kPanelColumns outputs. (The last panel of a part may have fewer; the rest of it is zeros.) A
/// panel is a list of super-blocks; a super-block has a head, then its blocks of 32 elements, each
/// with its codes, then its scales. panel_layout() says how many bytes these have.
///
/// Codes are at most eight bits, cut into planes. Group g of a block is its elements 4g..4g+3; a
/// plane is made of vectors [16 columns][4 elements of a group]:
///
///   byte    8 vectors: the codes of group g
///   nibble  4 vectors: the low four bits of group g in the low halves, of group 4 + g in the high
///   two     2 vectors: two bits of groups 4v..4v+3 in vector v, those of group 4v in the lowest
///   one     1 vector:  one bit of all groups, that of group 0 in the lowest
///
///   format       planes       head                       scales              an element is
///   q8_0         byte         -                          f16 d               d * (code - 128)
///   q4_0         nibble       -                          f16 d               d * (code - 8)
///   q4_1         nibble       -                          f16 d, f16 m        d * code + m
///   q5_0         nibble one   -                          f16 d               d * (code - 16)
///   q5_1         nibble one   -                          f16 d, f16 m        d * code + m
///   iq4_nl       nibble       -                          f16 d               d * kIq4[code]
///   iq4_xs       nibble       f16 d                      i8 s                d * s * kIq4[code]
///   q2_k         two          f16 d, f16 m               u8 s|t, twice       d * s * code - m * t
///   q3_k         two one      f16 d                      i8 s, twice         d * s * (code - 4)
///   q4_k         nibble       f16 d, f16 m               u8 s, u8 t          d * s * code - m * t
///   q5_k         nibble one   f16 d, f16 m               u8 s, u8 t          d * s * code - m * t
///   q6_k         nibble two   f16 d                      i8 s, twice         d * s * (code - 32)
///   int4_g32     nibble       f16 d, u8 z                -                   d * (code - z)
///   int4_g128    nibble       f16 d, u8 z                -                   d * (code - z)
///   int8_g128    byte         f32 d                      -                   d * (code - 128)
///   mxfp4        nibble       -                          u8 e                2^(e-128)*kFp4[code]
///   nvfp4        nibble       f32 g                      f16 d, twice        g * d * kFp4[code]
///
/// Each item of a head or of scales has 16 entries, one per column. "Twice": for elements 0..15,
/// then for elements 16..31. s|t: s in the low half of the byte. All products of scales are exact
/// in float32.
///
/// So a row of 16 outputs is one vector of products, sums need no reduction, and the bytes are
/// about as many as in the file. A row of quantised activations is a list of ActivationBlock.
namespace reprise {

/// The values for which the codes of iq4_nl and iq4_xs stand.
inline constexpr int8_t kIq4Values[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Twice the values for which the codes of mxfp4 (float4 E2M1) stand.
inline constexpr int8_t kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

struct ActivationBlock {
  int8_t codes[kPanelBlock];
  float scale;      // an element is code * scale
  int16_t sums[2];  // of the codes of each half
};
static_assert(sizeof(ActivationBlock) == 40);

[[nodiscard]] static constexpr int64_t num_panels(int64_t columns) noexcept {
  return (columns + kPanelColumns - 1) / kPanelColumns;
}

/// Bytes of all panels of `columns` outputs.
[[nodiscard]] static constexpr int64_t panel_bytes(PanelFormat format,
                                                   int64_t columns,
                                                   int64_t depth) noexcept {
  return num_panels(columns) * kPanelColumns * panel_column_bytes(format, depth);
}

/// Neighbouring outputs of a packed weight in one format.
struct PanelPart {
  PanelFormat format = PanelFormat::q8_0;
  int64_t columns = 0;
};

/// The header at the beginning of a packed weight.
struct PanelHeader {
  static constexpr uint32_t kMagic = 0x4c4e4150;
  static constexpr int kMaxParts = 8;
  struct Part {
    int64_t first_panel;  // of the panels of all parts
    int64_t first_column;
    int64_t columns;
    int64_t offset;  // offset of the first panel, in bytes from the header
    PanelFormat format;
  };
  uint32_t magic;
  int32_t num_parts;
  int64_t depth;   // elements
  int64_t panels;  // of all parts
  Part parts[kMaxParts];
};
/// Panels begin at this offset. They are aligned like the header.
inline constexpr int64_t kPanelHeaderBytes = 384;
static_assert(sizeof(PanelHeader) <= kPanelHeaderBytes);

}  // namespace reprise
