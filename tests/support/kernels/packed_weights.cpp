#include "tests/support/kernels/packed_weights.h"

#include <cstring>

#include "reprise/base/element.h"

namespace reprise::kernels {
namespace {

// The entries of all columns, of both signs.
template <typename T>
uint8_t* write_scales(uint8_t* to, float largest, std::mt19937& random) {
  for (int64_t c = 0; c < kPanelColumns; ++c, to += sizeof(T)) {
    T scale;
    store_element(&scale, (static_cast<float>(random() % 2001) - 1000.0F) * 1e-3F * largest);
    std::memcpy(to, &scale, sizeof scale);
  }
  return to;
}

// Writes the float entries of a head or of a block's scales; integer entries keep their random
// bytes.
void write_float_scales(PanelFormat format, uint8_t* head, uint8_t* scales, std::mt19937& random) {
  const PanelLayout layout = panel_layout(format);
  if (format == PanelFormat::mxfp4) {
    for (int64_t c = 0; c < kPanelColumns; ++c) scales[c] = static_cast<uint8_t>(random() % 126);
  } else if (format == PanelFormat::nvfp4) {
    write_scales<float>(head, 0.1F, random);
    write_scales<Float16>(write_scales<Float16>(scales, 1, random), 1, random);
  } else if (format == PanelFormat::int8_g128) {
    write_scales<float>(head, 0.1F, random);
  } else if (layout.super_blocks == 8) {
    uint8_t* next = write_scales<Float16>(head, 0.001F, random);
    if (layout.head_bytes == 4) write_scales<Float16>(next, 0.001F, random);
  } else if (layout.head_bytes == 3) {
    uint8_t* zeros = write_scales<Float16>(head, 0.1F, random);
    for (int64_t c = 0; c < kPanelColumns; ++c) zeros[c] = static_cast<uint8_t>(random() % 17);
  } else {
    uint8_t* next = write_scales<Float16>(scales, 0.1F, random);
    if (layout.scale_bytes == 4) write_scales<Float16>(next, 0.1F, random);
  }
}

// Calls visit(format, head, block) for every block of a weight.
template <typename Visit>
void for_blocks(uint8_t* weight, const PanelHeader& header, const Visit& visit) {
  for (int p = 0; p < header.num_parts; ++p) {
    const PanelHeader::Part& part = header.parts[p];
    const PanelLayout layout = panel_layout(part.format);
    uint8_t* at = weight + part.offset;
    const int64_t supers =
        num_panels(part.columns) * header.depth / panel_group_elements(part.format);
    for (int64_t s = 0; s < supers; ++s) {
      uint8_t* head = at;
      at += kPanelColumns * layout.head_bytes;
      for (int b = 0; b < layout.super_blocks; ++b) {
        visit(part.format, head, at);
        at += kPanelColumns * (layout.code_bytes + layout.scale_bytes);
      }
    }
  }
}

}  // namespace

std::vector<PanelFormat> all_panel_formats() {
  std::vector<PanelFormat> formats;
  for (int i = 0; i < kNumPanelFormats; ++i) formats.push_back(static_cast<PanelFormat>(i));
  return formats;
}

void fill_packed_weight(const Tensor& weight,
                        std::span<const PanelPart> parts,
                        std::mt19937& random) {
  const int64_t depth = weight.size(-1);
  auto* bytes = weight.data_as<uint8_t>();
  for (size_t i = 0; i < weight.type().bytes(); ++i) {
    const auto value = static_cast<uint32_t>(random() % 300);
    bytes[i] = static_cast<uint8_t>(value < 256 ? value : value % 2 == 0 ? 0 : 255);
  }
  const PanelHeader header = make_panel_header(parts, depth);
  std::memcpy(bytes, &header, sizeof header);
  for_blocks(bytes, header, [&](PanelFormat format, uint8_t* head, uint8_t* block) {
    uint8_t* scales = block + kPanelColumns * panel_layout(format).code_bytes;
    write_float_scales(format, head, scales, random);
  });
}

void set_packed_codes(const Tensor& weight, std::span<const PanelPart> parts, uint8_t byte) {
  const PanelHeader header = make_panel_header(parts, weight.size(-1));
  for_blocks(weight.data_as<uint8_t>(), header, [&](PanelFormat format, uint8_t*, uint8_t* block) {
    std::memset(block, byte, static_cast<size_t>(kPanelColumns * panel_layout(format).code_bytes));
  });
}

}  // namespace reprise::kernels
