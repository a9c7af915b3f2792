#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace reprise::cudagraph {

/// How one step runs. Ranks agree on the smallest of their modes, so the order of the values
/// matters.
enum class CudagraphRuntimeMode : uint8_t { NONE = 0, PIECEWISE = 1, FULL = 2 };

/// The option `cudagraph_mode`, with vLLM's names. The last three modes are dual: uniform decode
/// batches run FULL, and mixed batches run eagerly (FULL_DECODE_ONLY), PIECEWISE
/// (FULL_AND_PIECEWISE), or FULL with graphs of their own (FULL_AND_FULL). vLLM has no name for
/// FULL_AND_FULL: its pull request 20059 had two flags for it. See docs/adr/0095.
enum class CudagraphMode : uint8_t {
  NONE,
  PIECEWISE,
  FULL,
  FULL_DECODE_ONLY,
  FULL_AND_PIECEWISE,
  FULL_AND_FULL
};

/// Whether the mode is dual: uniform decode batches and mixed batches have different routines.
[[nodiscard]] constexpr bool separate_routine(CudagraphMode mode) noexcept {
  return mode == CudagraphMode::FULL_DECODE_ONLY || mode == CudagraphMode::FULL_AND_PIECEWISE ||
         mode == CudagraphMode::FULL_AND_FULL;
}

/// The runtime mode for uniform decode batches.
[[nodiscard]] constexpr CudagraphRuntimeMode decode_mode(CudagraphMode mode) noexcept {
  switch (mode) {
    case CudagraphMode::NONE:
      return CudagraphRuntimeMode::NONE;
    case CudagraphMode::PIECEWISE:
      return CudagraphRuntimeMode::PIECEWISE;
    case CudagraphMode::FULL:
    case CudagraphMode::FULL_DECODE_ONLY:
    case CudagraphMode::FULL_AND_PIECEWISE:
    case CudagraphMode::FULL_AND_FULL:
      return CudagraphRuntimeMode::FULL;
  }
  return CudagraphRuntimeMode::NONE;
}

/// The runtime mode for all other batches.
[[nodiscard]] constexpr CudagraphRuntimeMode mixed_mode(CudagraphMode mode) noexcept {
  switch (mode) {
    case CudagraphMode::NONE:
    case CudagraphMode::FULL_DECODE_ONLY:
      return CudagraphRuntimeMode::NONE;
    case CudagraphMode::PIECEWISE:
    case CudagraphMode::FULL_AND_PIECEWISE:
      return CudagraphRuntimeMode::PIECEWISE;
    case CudagraphMode::FULL:
    case CudagraphMode::FULL_AND_FULL:
      return CudagraphRuntimeMode::FULL;
  }
  return CudagraphRuntimeMode::NONE;
}

/// Whether one of the two routines is `component`.
[[nodiscard]] constexpr bool has_mode(CudagraphMode mode, CudagraphRuntimeMode component) noexcept {
  return decode_mode(mode) == component || mixed_mode(mode) == component;
}

[[nodiscard]] constexpr bool requires_piecewise_compilation(CudagraphMode mode) noexcept {
  return has_mode(mode, CudagraphRuntimeMode::PIECEWISE);
}

/// The larger of the two routines, in the order of CudagraphRuntimeMode.
[[nodiscard]] constexpr CudagraphRuntimeMode max_cudagraph_mode(CudagraphMode mode) noexcept {
  return decode_mode(mode) < mixed_mode(mode) ? mixed_mode(mode) : decode_mode(mode);
}

[[nodiscard]] constexpr bool has_full_cudagraphs(CudagraphMode mode) noexcept {
  return max_cudagraph_mode(mode) == CudagraphRuntimeMode::FULL;
}

/// Whether the mode is also a runtime mode: NONE, PIECEWISE or FULL.
[[nodiscard]] constexpr bool is_valid_runtime_mode(CudagraphMode mode) noexcept {
  return !separate_routine(mode);
}

/// The mode with the same name.
[[nodiscard]] constexpr CudagraphMode as_mode(CudagraphRuntimeMode mode) noexcept {
  return static_cast<CudagraphMode>(mode);
}

[[nodiscard]] std::string_view to_string(CudagraphRuntimeMode mode) noexcept;
[[nodiscard]] std::string_view to_string(CudagraphMode mode) noexcept;

/// All names, in enumerator order.
[[nodiscard]] std::span<const std::string_view> cudagraph_mode_names() noexcept;

/// Parses a name in upper or lower case ("full_and_piecewise"), or "0", "1" or "2" for NONE,
/// PIECEWISE or FULL. Nothing for any other text.
[[nodiscard]] std::optional<CudagraphMode> cudagraph_mode_from_text(std::string_view text);

/// The part of a mode that needs no pieces: FULL_AND_PIECEWISE keeps its decode graphs, PIECEWISE
/// keeps none.
[[nodiscard]] constexpr CudagraphMode without_piecewise(CudagraphMode mode) noexcept {
  if (mode == CudagraphMode::PIECEWISE) return CudagraphMode::NONE;
  if (mode == CudagraphMode::FULL_AND_PIECEWISE) return CudagraphMode::FULL_DECODE_ONLY;
  return mode;
}

/// 0 is NONE, 1 is PIECEWISE, 2 is FULL: configurations used these numbers before the modes had
/// names. Dual modes have no number.
[[nodiscard]] constexpr std::optional<CudagraphMode> cudagraph_mode_from_integer(
    int64_t value) noexcept {
  if (value < 0 || value > 2) return std::nullopt;
  return static_cast<CudagraphMode>(value);
}

/// Like cudagraph_mode_from_text(). \throws InvalidArgument that lists the names, for any other
/// text
[[nodiscard]] CudagraphMode parse_cudagraph_mode(std::string_view text);

}  // namespace reprise::cudagraph
