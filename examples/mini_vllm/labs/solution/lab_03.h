#pragma once

/// Lab 03, solution: see ../03_cudagraph_mode.md.
namespace course {

enum class Runtime { NONE, PIECEWISE, FULL };

/// A mode is a pair: how uniform decode batches run, and how all others run.
struct Mode {
  Runtime decode = Runtime::NONE;
  Runtime mixed = Runtime::NONE;

  friend constexpr bool operator==(const Mode&, const Mode&) = default;
};
inline constexpr Mode kNone{Runtime::NONE, Runtime::NONE};
inline constexpr Mode kPiecewise{Runtime::PIECEWISE, Runtime::PIECEWISE};
inline constexpr Mode kFull{Runtime::FULL, Runtime::FULL};
inline constexpr Mode kFullDecodeOnly{Runtime::FULL, Runtime::NONE};
inline constexpr Mode kFullAndPiecewise{Runtime::FULL, Runtime::PIECEWISE};

[[nodiscard]] constexpr Runtime decode_mode(Mode mode) { return mode.decode; }
[[nodiscard]] constexpr Runtime mixed_mode(Mode mode) { return mode.mixed; }
[[nodiscard]] constexpr bool separate_routine(Mode mode) { return mode.decode != mode.mixed; }
[[nodiscard]] constexpr bool has_mode(Mode mode, Runtime part) {
  return mode.decode == part || mode.mixed == part;
}
[[nodiscard]] constexpr bool requires_piecewise_compilation(Mode mode) {
  return has_mode(mode, Runtime::PIECEWISE);
}

/// How a batch runs when a graph for its size was captured, and when none was.
[[nodiscard]] constexpr Runtime route(Mode mode, bool is_uniform_decode, bool is_captured) {
  if (!is_captured) return Runtime::NONE;
  return is_uniform_decode ? decode_mode(mode) : mixed_mode(mode);
}

}  // namespace course
