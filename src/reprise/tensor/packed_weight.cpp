#include "reprise/tensor/packed_weight.h"

#include <cmath>
#include <cstring>

#include "reprise/base/assert.h"
#include "reprise/base/element.h"
#include "reprise/tensor/column_panels.h"
#include "reprise/tensor/float_panels.h"
#include "reprise/tensor/int8_panels.h"

namespace reprise {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The bytes of one block of a panel that belong to one of its columns.
struct BlockOfColumn {
  const uint8_t* head;
  const uint8_t* codes;
  const uint8_t* scales;
  int64_t column;

  [[nodiscard]] double half(const uint8_t* entries) const {
    Float16 value;
    std::memcpy(&value, entries + 2 * column, sizeof value);
    return to_float(value);
  }
  [[nodiscard]] int unsigned_byte(const uint8_t* entries) const { return entries[column]; }
  [[nodiscard]] float single(const uint8_t* entries) const {
    float value = 0;
    std::memcpy(&value, entries + 4 * column, sizeof value);
    return value;
  }
  [[nodiscard]] int signed_byte(const uint8_t* entries) const {
    return static_cast<int8_t>(entries[column]);
  }

  // The byte, in the vector of group `vector`, that holds bits of element i.
  [[nodiscard]] unsigned plane(int64_t offset, int64_t vector, int64_t i) const {
    return codes[offset + vector * 64 + column * 4 + i % 4];
  }
  [[nodiscard]] int byte(int64_t i) const { return static_cast<int>(plane(0, i / 4, i)); }
  [[nodiscard]] int nibble(int64_t i) const {
    const unsigned pair = plane(0, i % 16 / 4, i);
    return static_cast<int>(i < 16 ? pair & 15U : pair >> 4);
  }
  [[nodiscard]] int two(int64_t offset, int64_t i) const {
    return static_cast<int>(plane(offset, i / 16, i) >> (i / 4 % 4 * 2) & 3U);
  }
  [[nodiscard]] int one(int64_t offset, int64_t i) const {
    return static_cast<int>(plane(offset, 0, i) >> (i / 4) & 1U);
  }
};

double value_of(PanelFormat format, const BlockOfColumn& block, int64_t i) {
  const uint8_t* own = block.scales;
  const int64_t part = i / 16 * 16;  // of scales that come twice
  switch (format) {
    case PanelFormat::q8_0:
      return block.half(own) * (block.byte(i) - 128);
    case PanelFormat::q4_0:
      return block.half(own) * (block.nibble(i) - 8);
    case PanelFormat::q4_1:
      return block.half(own) * block.nibble(i) + block.half(own + 32);
    case PanelFormat::q5_0:
      return block.half(own) * (block.nibble(i) + 16 * block.one(256, i) - 16);
    case PanelFormat::q5_1:
      return block.half(own) * (block.nibble(i) + 16 * block.one(256, i)) + block.half(own + 32);
    case PanelFormat::iq4_nl:
      return block.half(own) * kIq4Values[block.nibble(i)];
    case PanelFormat::iq4_xs:
      return block.half(block.head) * block.signed_byte(own) * kIq4Values[block.nibble(i)];
    case PanelFormat::q2_k: {
      const int packed = block.unsigned_byte(own + part);
      return block.half(block.head) * (packed & 15) * block.two(0, i) -
             block.half(block.head + 32) * (packed >> 4);
    }
    case PanelFormat::q3_k:
      return block.half(block.head) * block.signed_byte(own + part) *
             (block.two(0, i) + 4 * block.one(128, i) - 4);
    case PanelFormat::q4_k:
      return block.half(block.head) * block.unsigned_byte(own) * block.nibble(i) -
             block.half(block.head + 32) * block.unsigned_byte(own + 16);
    case PanelFormat::q5_k:
      return block.half(block.head) * block.unsigned_byte(own) *
                 (block.nibble(i) + 16 * block.one(256, i)) -
             block.half(block.head + 32) * block.unsigned_byte(own + 16);
    case PanelFormat::q6_k:
      return block.half(block.head) * block.signed_byte(own + part) *
             (block.nibble(i) + 16 * block.two(256, i) - 32);
    case PanelFormat::int4_g32:
    case PanelFormat::int4_g128:
      return block.half(block.head) * (block.nibble(i) - block.unsigned_byte(block.head + 32));
    case PanelFormat::int8_g128:
      return static_cast<double>(block.single(block.head)) * (block.byte(i) - 128);
    case PanelFormat::mxfp4:
      return std::ldexp(static_cast<double>(kFp4Values[block.nibble(i)]),
                        block.unsigned_byte(own) - 128);
    case PanelFormat::nvfp4: {
      const auto scale = static_cast<float>(block.half(own + 2 * part));
      return static_cast<double>(block.single(block.head) * scale) * kFp4Values[block.nibble(i)];
    }
    case PanelFormat::int8_rows:
    case PanelFormat::f8e4m3_rows:
    case PanelFormat::f8e4m3_g128:
    case PanelFormat::f8e5m2_rows:
    case PanelFormat::f8e5m2_g128:
    case PanelFormat::f4_g64:
      REPRISE_ASSERT(false, "a packed weight has no parts of format {}", static_cast<int>(format));
  }
  return 0;
}

}  // namespace

PanelHeader make_panel_header(std::span<const PanelPart> parts, int64_t depth) {
  REPRISE_ASSERT(!parts.empty() && parts.size() <= PanelHeader::kMaxParts,
                 "the number of parts of a packed weight is out of range: {}",
                 parts.size());
  PanelHeader header = {.magic = PanelHeader::kMagic,
                        .num_parts = static_cast<int32_t>(parts.size()),
                        .depth = depth,
                        .panels = 0,
                        .parts = {}};
  int64_t column = 0;
  int64_t offset = kPanelHeaderBytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    REPRISE_ASSERT(depth % panel_group_elements(parts[i].format) == 0,
                   "a depth of {} is not a multiple of {}",
                   depth,
                   panel_group_elements(parts[i].format));
    header.parts[i] = {.first_panel = header.panels,
                       .first_column = column,
                       .columns = parts[i].columns,
                       .offset = offset,
                       .format = parts[i].format};
    header.panels += num_panels(parts[i].columns);
    column += parts[i].columns;
    offset += panel_bytes(parts[i].format, parts[i].columns, depth);
  }
  return header;
}

int64_t packed_weight_bytes(std::span<const PanelPart> parts, int64_t depth) {
  int64_t bytes = kPanelHeaderBytes;
  for (const PanelPart& part : parts) bytes += panel_bytes(part.format, part.columns, depth);
  return bytes;
}

TensorType packed_weight_type(std::span<const PanelPart> parts, int64_t depth, DType dtype) {
  int64_t columns = 0;
  for (const PanelPart& part : parts) columns += part.columns;
  return {.dtype = dtype,
          .shape = {columns, depth},
          .layout = block_panels_layout(ceil_div(packed_weight_bytes(parts, depth), columns))};
}

PanelHeader read_panel_header(const Tensor& weight) {
  PanelHeader header;
  REPRISE_ASSERT(weight.type().bytes() >= sizeof header,
                 "the memory of a packed weight is smaller than its header");
  std::memcpy(&header, weight.data(), sizeof header);
  REPRISE_ASSERT(header.magic == PanelHeader::kMagic && header.num_parts >= 1 &&
                     header.num_parts <= PanelHeader::kMaxParts,
                 "{} does not begin with the header of a packed weight",
                 weight.type().to_string());
  return header;
}

double panel_element(const uint8_t* weight, int64_t column, int64_t element) {
  PanelHeader header;
  std::memcpy(&header, weight, sizeof header);
  int index = 0;
  while (index + 1 < header.num_parts && column >= header.parts[index + 1].first_column) ++index;
  const PanelHeader::Part& part = header.parts[index];
  const PanelLayout layout = panel_layout(part.format);
  const int64_t in_part = column - part.first_column;
  const int64_t block = element / kPanelBlock;
  const int64_t block_bytes = kPanelColumns * (layout.code_bytes + layout.scale_bytes);
  const int64_t super_bytes = kPanelColumns * layout.head_bytes + layout.super_blocks * block_bytes;
  const uint8_t* head =
      weight + part.offset +
      in_part / kPanelColumns * kPanelColumns * panel_column_bytes(part.format, header.depth) +
      block / layout.super_blocks * super_bytes;
  const uint8_t* codes =
      head + kPanelColumns * layout.head_bytes + block % layout.super_blocks * block_bytes;
  return value_of(part.format,
                  {.head = head,
                   .codes = codes,
                   .scales = codes + kPanelColumns * layout.code_bytes,
                   .column = in_part % kPanelColumns},
                  element % kPanelBlock);
}

namespace {

float number_at(const uint8_t* p) {
  float number = 0;
  std::memcpy(&number, p, sizeof number);
  return number;
}

double float_panel_element(const Tensor& weight, int64_t column, int64_t i) {
  const PanelFormat codec = weight.layout().codec;
  const int64_t group = weight.layout().group(weight.size(-1));
  const int64_t panel_bytes = kPanelColumns * weight.layout().row_bytes;
  const uint8_t* panel = weight.data_as<uint8_t>() + column / kPanelColumns * panel_bytes;
  const uint8_t code = panel[float_code_offset(codec, group, column, i)];
  const double scale = number_at(panel + float_scale_offset(codec, group, i / group, column));
  switch (codec) {
    case PanelFormat::f8e4m3_rows:
    case PanelFormat::f8e4m3_g128:
      return scale * to_float(Float8E4M3{code});
    case PanelFormat::f8e5m2_rows:
    case PanelFormat::f8e5m2_g128:
      return scale * to_float(Float8E5M2{code});
    default:
      break;
  }
  const unsigned index = i % 2 == 0 ? code & 15U : code >> 4;
  const uint8_t* table = panel + panel_bytes - kPanelColumns * static_cast<int64_t>(sizeof(float));
  return scale * number_at(table + index * sizeof(float));
}

}  // namespace

double packed_element(const Tensor& weight, int64_t column, int64_t element) {
  const int64_t depth = weight.size(-1);
  const auto* bytes = weight.data_as<uint8_t>();
  switch (weight.layout().family) {
    case WeightFamily::column_panels:
      return to_float(weight.data_as<BFloat16>()[column_panel_offset(column, element, depth)]);
    case WeightFamily::block_panels:
      return panel_element(bytes, column, element);
    case WeightFamily::int8_panels:
      return static_cast<double>(number_at(bytes + int8_scale_offset(column, depth))) *
             static_cast<int8_t>(bytes[int8_panel_offset(column, element, depth)]);
    case WeightFamily::float_panels:
      return float_panel_element(weight, column, element);
    case WeightFamily::rows:
      break;
  }
  REPRISE_ASSERT(false, "{} is not packed", weight.type().to_string());
  return 0;
}

}  // namespace reprise
