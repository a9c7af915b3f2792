#pragma once

#include <cstddef>
#include <cstdint>

/// The layout in memory of weights that kernels read packed, in blocks of 32 elements, and of
/// activations that are quantised in the same blocks.
///
/// A packed weight is an int8 tensor [out_features, W]. Its memory begins with a PanelHeader, which
/// names the parts: neighbouring outputs in one format. A part is a list of panels, and a panel has
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
///
/// Each item of a head or of scales has 16 entries, one per column. "Twice": for elements 0..15,
/// then for elements 16..31. s|t: s in the low half of the byte. All products of scales are exact
/// in float32.
///
/// So a row of 16 outputs is one vector of products, sums need no reduction, and the bytes are
/// about as many as in the file. A row of quantised activations is a list of ActivationBlock.
namespace reprise {

enum class PanelFormat : uint8_t {
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  iq4_nl,
  iq4_xs,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  int4_g32,
  int4_g128,
  int8_g128,
  mxfp4,
  // Whole rows with one scale: tensor/int8_panels.h. Its panels have no header, and activations are
  // not quantised in blocks.
  int8_rows,
  // Floats with scales: tensor/float_panels.h. Their panels have no header, and activations are not
  // quantised at all.
  f8e4m3_rows,
  f8e4m3_g128,
  f8e5m2_rows,
  f8e5m2_g128,
  f4_g64,
};
/// Those of weights in blocks.
inline constexpr int kNumPanelFormats = 16;

inline constexpr int64_t kPanelColumns = 16;
inline constexpr int64_t kPanelBlock = 32;  // elements

/// The values that the codes of iq4_nl and iq4_xs stand for.
inline constexpr int8_t kIq4Values[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// Twice the values that the codes of mxfp4 (float4 E2M1) stand for.
inline constexpr int8_t kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

struct ActivationBlock {
  int8_t codes[kPanelBlock];
  float scale;      // an element is code * scale
  int16_t sums[2];  // of the codes of each half
};
static_assert(sizeof(ActivationBlock) == 40);

/// Sizes in bytes for one column; a panel has kPanelColumns times as many.
struct PanelLayout {
  int super_blocks = 1;  // blocks of a super-block
  int head_bytes = 0;    // of a super-block
  int code_bytes = 0;    // of a block
  int scale_bytes = 0;   // of a block
  int tail_bytes = 0;    // of a panel, after its blocks
};

[[nodiscard]] static constexpr PanelLayout panel_layout(PanelFormat format) noexcept {
  switch (format) {
    case PanelFormat::q8_0:
      return {.code_bytes = 32, .scale_bytes = 2};
    case PanelFormat::q4_0:
    case PanelFormat::iq4_nl:
      return {.code_bytes = 16, .scale_bytes = 2};
    case PanelFormat::q4_1:
      return {.code_bytes = 16, .scale_bytes = 4};
    case PanelFormat::q5_0:
      return {.code_bytes = 20, .scale_bytes = 2};
    case PanelFormat::q5_1:
      return {.code_bytes = 20, .scale_bytes = 4};
    case PanelFormat::iq4_xs:
      return {.super_blocks = 8, .head_bytes = 2, .code_bytes = 16, .scale_bytes = 1};
    case PanelFormat::q2_k:
      return {.super_blocks = 8, .head_bytes = 4, .code_bytes = 8, .scale_bytes = 2};
    case PanelFormat::q3_k:
      return {.super_blocks = 8, .head_bytes = 2, .code_bytes = 12, .scale_bytes = 2};
    case PanelFormat::q4_k:
      return {.super_blocks = 8, .head_bytes = 4, .code_bytes = 16, .scale_bytes = 2};
    case PanelFormat::q5_k:
      return {.super_blocks = 8, .head_bytes = 4, .code_bytes = 20, .scale_bytes = 2};
    case PanelFormat::q6_k:
      return {.super_blocks = 8, .head_bytes = 2, .code_bytes = 24, .scale_bytes = 2};
    case PanelFormat::int4_g32:
      return {.head_bytes = 3, .code_bytes = 16};
    case PanelFormat::int4_g128:
      return {.super_blocks = 4, .head_bytes = 3, .code_bytes = 16};
    case PanelFormat::int8_g128:
      return {.super_blocks = 4, .head_bytes = 4, .code_bytes = 32};
    case PanelFormat::mxfp4:
      return {.code_bytes = 16, .scale_bytes = 1};
    case PanelFormat::int8_rows:
      return {.super_blocks = 2, .code_bytes = 32, .tail_bytes = 8};
    case PanelFormat::f8e4m3_rows:
    case PanelFormat::f8e5m2_rows:
      return {.code_bytes = 32, .tail_bytes = 4};
    case PanelFormat::f8e4m3_g128:
    case PanelFormat::f8e5m2_g128:
      return {.super_blocks = 4, .head_bytes = 4, .code_bytes = 32};
    case PanelFormat::f4_g64:
      return {.super_blocks = 2, .head_bytes = 4, .code_bytes = 16, .tail_bytes = 4};
  }
  return {};
}

/// The elements that share a head. The depth of a weight is a multiple of that.
[[nodiscard]] static constexpr int64_t panel_group_elements(PanelFormat format) noexcept {
  return panel_layout(format).super_blocks * kPanelBlock;
}

/// Bytes of one column of `depth` elements. \pre depth is a multiple of panel_group_elements()
[[nodiscard]] static constexpr int64_t panel_column_bytes(PanelFormat format,
                                                          int64_t depth) noexcept {
  const PanelLayout layout = panel_layout(format);
  const int64_t blocks = depth / kPanelBlock;
  return blocks * (layout.code_bytes + layout.scale_bytes) +
         blocks / layout.super_blocks * layout.head_bytes + layout.tail_bytes;
}

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

/// The beginning of a packed weight.
struct PanelHeader {
  static constexpr uint32_t kMagic = 0x4c4e4150;
  static constexpr int kMaxParts = 8;
  struct Part {
    int64_t first_panel;  // of the panels of all parts
    int64_t first_column;
    int64_t columns;
    int64_t offset;  // of the first panel, in bytes from the header
    PanelFormat format;
  };
  uint32_t magic;
  int32_t num_parts;
  int64_t depth;   // elements
  int64_t panels;  // of all parts
  Part parts[kMaxParts];
};
/// Panels begin here, aligned as the header is.
inline constexpr int64_t kPanelHeaderBytes = 384;
static_assert(sizeof(PanelHeader) <= kPanelHeaderBytes);

}  // namespace reprise
