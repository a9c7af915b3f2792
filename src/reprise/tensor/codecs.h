#pragma once

#include <cstdint>

#include "reprise/tensor/weight_family.h"

/// The codecs of packed weights (codec_list.inl), and their families. The functions here are
/// `static`, because kernels of several instruction sets include them.
namespace reprise {

enum class PanelFormat : uint8_t {
#define X(name, ...) name,
#include "reprise/tensor/codec_list.inl"
#undef X
};

// NOLINTBEGIN(bugprone-branch-clone): a list of codecs makes the branches.
[[nodiscard]] static constexpr WeightFamily family_of(PanelFormat codec) noexcept {
  switch (codec) {
#define X(name, family, ...) \
  case PanelFormat::name:    \
    return WeightFamily::family;
#include "reprise/tensor/codec_list.inl"
#undef X
  }
  return WeightFamily::rows;
}
// NOLINTEND(bugprone-branch-clone)

/// The number of codecs of weights in blocks. They come first in the list.
inline constexpr int kNumPanelFormats = 17;
static_assert(family_of(static_cast<PanelFormat>(kNumPanelFormats - 1)) ==
                  WeightFamily::block_panels &&
              family_of(static_cast<PanelFormat>(kNumPanelFormats)) != WeightFamily::block_panels);

inline constexpr int64_t kPanelColumns = 16;
inline constexpr int64_t kPanelBlock = 32;  // elements

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
#define X(name, family, ...) \
  case PanelFormat::name:    \
    return {__VA_ARGS__};
#include "reprise/tensor/codec_list.inl"
#undef X
  }
  return {};
}

/// The number of elements that share a head. The depth of a weight is a multiple of it.
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

}  // namespace reprise
