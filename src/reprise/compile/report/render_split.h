#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/program/split.h"

/// Draws a split program: a string of SVG without fonts, scripts or network access.
namespace reprise::compile {

struct SplitPicture {
  const program::SplitProgram* before = nullptr;  // as traced; owned by the caller
  const program::SplitProgram* after = nullptr;   // as compiled, split at the same ops
  /// has_code[p][g]: whether code was generated for group g of program p of `after`. Empty: for
  /// none.
  std::vector<std::vector<bool>> has_code;
  std::string title;
};

/// Draws SVG 1.1 (well-formed XML) that is readable on light and dark backgrounds. The pieces are
/// drawn from top to bottom, and repetitions are folded. The left side shows the traced ops, the
/// right side the compiled ops, with a frame around each launch. Equal pieces have the same colour,
/// and split points have dashed frames. If the two programs were not split at the same ops, the
/// left side stays empty.
[[nodiscard]] std::string render_svg(const SplitPicture& picture);

/// Escapes & < > " ' for XML. Characters that XML cannot hold become '?'.
[[nodiscard]] std::string escape_xml(std::string_view text);

}  // namespace reprise::compile
