#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reprise/program/split.h"

/// A split program as a picture: a string of SVG, no fonts, no scripts, no network.
namespace reprise::compile {

struct SplitPicture {
  const program::SplitProgram* before = nullptr;  // as traced; owned by the caller
  const program::SplitProgram* after = nullptr;   // as compiled, with the same cuts
  /// By program of `after`, then by group: whether code was generated. Empty: nowhere.
  std::vector<std::vector<bool>> has_code;
  std::string title;
};

/// SVG 1.1, well-formed XML, readable in light and dark. Pieces from top to bottom with repetitions
/// folded, ops as traced on the left and as compiled on the right, a frame around each launch;
/// equal pieces have one colour, split points are dashed. If the two sides were not cut alike, the
/// left one stays empty.
[[nodiscard]] std::string render_svg(const SplitPicture& picture);

/// & < > " ' as XML wants them; characters that XML cannot hold become '?'.
[[nodiscard]] std::string escape_xml(std::string_view text);

}  // namespace reprise::compile
