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
  for (int p = 0; p < header.num_parts; ++p) {
    const PanelHeader::Part& part = header.parts[p];
    const PanelLayout layout = panel_layout(part.format);
    uint8_t* at = bytes + part.offset;
    const int64_t supers = num_panels(part.columns) * depth / panel_group_elements(part.format);
    for (int64_t s = 0; s < supers; ++s) {
      uint8_t* head = at;
      at += kPanelColumns * layout.head_bytes;
      for (int b = 0; b < layout.super_blocks; ++b) {
        uint8_t* scales = at + kPanelColumns * layout.code_bytes;
        write_float_scales(part.format, head, scales, random);
        at = scales + kPanelColumns * layout.scale_bytes;
      }
    }
  }
}

}  // namespace reprise::kernels
