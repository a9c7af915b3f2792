#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace reprise::cudagraph {

/// The mode that one step runs as. Ordered, because ranks agree on the minimum.
enum class CudagraphRuntimeMode : uint8_t { NONE = 0, PIECEWISE = 1, FULL = 2 };

/// The single knob `cudagraph_mode`. The last two are dual modes: FULL for uniform decode batches,
/// another routine for mixed ones. Enumerators are spelled as vLLM spells them.
enum class CudagraphMode : uint8_t { NONE, PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE };

/// True for the dual modes, in which uniform decode batches and mixed batches take different
/// routines.
[[nodiscard]] constexpr bool separate_routine(CudagraphMode mode) noexcept {
  return mode == CudagraphMode::FULL_DECODE_ONLY || mode == CudagraphMode::FULL_AND_PIECEWISE;
}

/// The routine of uniform decode batches.
[[nodiscard]] constexpr CudagraphRuntimeMode decode_mode(CudagraphMode mode) noexcept {
  switch (mode) {
    case CudagraphMode::NONE:
      return CudagraphRuntimeMode::NONE;
    case CudagraphMode::PIECEWISE:
      return CudagraphRuntimeMode::PIECEWISE;
    case CudagraphMode::FULL:
    case CudagraphMode::FULL_DECODE_ONLY:
    case CudagraphMode::FULL_AND_PIECEWISE:
      return CudagraphRuntimeMode::FULL;
  }
  return CudagraphRuntimeMode::NONE;
}

/// The routine of every other batch.
[[nodiscard]] constexpr CudagraphRuntimeMode mixed_mode(CudagraphMode mode) noexcept {
  switch (mode) {
    case CudagraphMode::NONE:
    case CudagraphMode::FULL_DECODE_ONLY:
      return CudagraphRuntimeMode::NONE;
    case CudagraphMode::PIECEWISE:
    case CudagraphMode::FULL_AND_PIECEWISE:
      return CudagraphRuntimeMode::PIECEWISE;
    case CudagraphMode::FULL:
      return CudagraphRuntimeMode::FULL;
  }
  return CudagraphRuntimeMode::NONE;
}

/// True when one of the two routines is `component`.
[[nodiscard]] constexpr bool has_mode(CudagraphMode mode, CudagraphRuntimeMode component) noexcept {
  return decode_mode(mode) == component || mixed_mode(mode) == component;
}

[[nodiscard]] constexpr bool requires_piecewise_compilation(CudagraphMode mode) noexcept {
  return has_mode(mode, CudagraphRuntimeMode::PIECEWISE);
}

/// The larger of the two routines.
[[nodiscard]] constexpr CudagraphRuntimeMode max_cudagraph_mode(CudagraphMode mode) noexcept {
  return decode_mode(mode) < mixed_mode(mode) ? mixed_mode(mode) : decode_mode(mode);
}

[[nodiscard]] constexpr bool has_full_cudagraphs(CudagraphMode mode) noexcept {
  return max_cudagraph_mode(mode) == CudagraphRuntimeMode::FULL;
}

/// True for the three single modes, the only ones a step can run as.
[[nodiscard]] constexpr bool is_valid_runtime_mode(CudagraphMode mode) noexcept {
  return !separate_routine(mode);
}

/// The single mode with the same name.
[[nodiscard]] constexpr CudagraphMode as_mode(CudagraphRuntimeMode mode) noexcept {
  return static_cast<CudagraphMode>(mode);
}

[[nodiscard]] std::string_view to_string(CudagraphRuntimeMode mode) noexcept;
[[nodiscard]] std::string_view to_string(CudagraphMode mode) noexcept;

/// All five names, in enumerator order.
[[nodiscard]] std::span<const std::string_view> cudagraph_mode_names() noexcept;

/// Reads a name in any case ("full_and_piecewise") or the digits "0".."2" of a single mode; empty
/// for any other text.
[[nodiscard]] std::optional<CudagraphMode> cudagraph_mode_from_text(std::string_view text);

/// 0 NONE, 1 PIECEWISE, 2 FULL: the values that configurations used before the names existed. Dual
/// modes have no number.
[[nodiscard]] constexpr std::optional<CudagraphMode> cudagraph_mode_from_integer(
    int64_t value) noexcept {
  if (value < 0 || value > 2) return std::nullopt;
  return static_cast<CudagraphMode>(value);
}

/// Like cudagraph_mode_from_text, but other text is an error that lists the names.
/// \throws InvalidArgument
[[nodiscard]] CudagraphMode parse_cudagraph_mode(std::string_view text);

}  // namespace reprise::cudagraph
