#include "reprise/cudagraph/cudagraph_mode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"

namespace reprise::cudagraph {
namespace {

constexpr std::array<std::string_view, 6> kModeNames = {
    "NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE", "FULL_AND_FULL"};

}  // namespace

std::string_view to_string(CudagraphRuntimeMode mode) noexcept {
  return kModeNames[static_cast<size_t>(mode)];
}

std::string_view to_string(CudagraphMode mode) noexcept {
  return kModeNames[static_cast<size_t>(mode)];
}

std::span<const std::string_view> cudagraph_mode_names() noexcept { return kModeNames; }

std::optional<CudagraphMode> cudagraph_mode_from_text(std::string_view text) {
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '9') {
    return cudagraph_mode_from_integer(text[0] - '0');
  }
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) {
    return static_cast<char>(std::toupper(c));
  });
  const auto found = std::find(kModeNames.begin(), kModeNames.end(), upper);
  if (found == kModeNames.end()) return std::nullopt;
  return static_cast<CudagraphMode>(found - kModeNames.begin());
}

CudagraphMode parse_cudagraph_mode(std::string_view text) {
  if (const auto mode = cudagraph_mode_from_text(text)) return *mode;
  throw InvalidArgument(fmt::format("cudagraph_mode: unknown value '{}'{}; expected one of {}",
                                    text,
                                    did_you_mean(text, kModeNames),
                                    fmt::join(kModeNames, ", ")));
}

}  // namespace reprise::cudagraph
