#include "reprise/tensor/weight_layout.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>

#include "reprise/base/assert.h"
#include "reprise/tensor/float_panels.h"

namespace reprise {
namespace {

constexpr std::string_view kPanels = "panels";
constexpr std::string_view kBlocks = "blocks";

constexpr std::array kCodecNames = {
#define X(name, ...) std::string_view(#name),
#include "reprise/tensor/codec_list.inl"
#undef X
};

}  // namespace

std::string_view codec_name(PanelFormat codec) noexcept {
  return kCodecNames[static_cast<size_t>(codec)];
}

int64_t WeightLayout::group(int64_t depth) const noexcept {
  return family == WeightFamily::float_panels ? float_group_elements(codec, depth) : depth;
}

std::string WeightLayout::to_string() const {
  switch (family) {
    case WeightFamily::rows:
      return {};
    case WeightFamily::column_panels:
      return std::string(kPanels);
    case WeightFamily::block_panels:
      return fmt::format("{}{}", kBlocks, row_bytes);
    case WeightFamily::int8_panels:
    case WeightFamily::float_panels:
      return fmt::format("{}_{}", codec_name(codec), kPanels);
  }
  return {};
}

WeightLayout layout_of(PanelFormat codec, int64_t depth) {
  REPRISE_ASSERT(
      family_of(codec) != WeightFamily::block_panels, "{} is a codec of blocks", codec_name(codec));
  return {.family = family_of(codec),
          .codec = codec,
          .row_bytes = static_cast<int32_t>(panel_column_bytes(codec, depth))};
}

std::optional<WeightLayout> parse_weight_layout(std::string_view text, int64_t depth) {
  if (text.empty()) return WeightLayout{};
  if (text == kPanels) return column_panels_layout();
  if (text.starts_with(kBlocks)) {
    text.remove_prefix(kBlocks.size());
    int32_t row_bytes = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), row_bytes);
    const bool is_number = read.ec == std::errc() && read.ptr == text.data() + text.size();
    return is_number && row_bytes > 0 ? std::optional(block_panels_layout(row_bytes))
                                      : std::nullopt;
  }
  if (depth < 0 || depth > std::numeric_limits<int32_t>::max() / 4) return std::nullopt;
  for (size_t i = 0; i < kCodecNames.size(); ++i) {
    const auto codec = static_cast<PanelFormat>(i);
    if (family_of(codec) == WeightFamily::block_panels) continue;
    const WeightLayout layout = layout_of(codec, depth);
    if (layout.to_string() == text) return layout;
  }
  return std::nullopt;
}

}  // namespace reprise
