#pragma once

#include "not_yet.h"

/// Lab 03, starter: see ../03_cudagraph_mode.md.
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

[[nodiscard]] inline Runtime decode_mode(Mode) { not_yet("decode_mode"); }
[[nodiscard]] inline Runtime mixed_mode(Mode) { not_yet("mixed_mode"); }
[[nodiscard]] inline bool separate_routine(Mode) { not_yet("separate_routine"); }
[[nodiscard]] inline bool has_mode(Mode, Runtime) { not_yet("has_mode"); }
[[nodiscard]] inline bool requires_piecewise_compilation(Mode) {
  not_yet("requires_piecewise_compilation");
}

/// How a batch runs when a graph for its size was captured, and when none was.
[[nodiscard]] inline Runtime route(Mode, bool /*is_uniform_decode*/, bool /*is_captured*/) {
  not_yet("route");
}

}  // namespace course
