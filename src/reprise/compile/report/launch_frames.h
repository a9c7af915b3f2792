#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reprise/program/program.h"

/// Prepares the launches of a program for a picture.
namespace reprise::compile {

/// One line of a frame: the op, its module in the model, and the type of its result.
struct OpText {
  std::string name;
  std::string place;
  std::string type;
};

/// One launch with its ops. is_launch = false: ops that launch nothing, drawn without a frame.
struct LaunchFrame {
  bool is_launch = true;
  std::vector<OpText> lines;
  std::string caption;  // above the lines of a row group
  std::string tooltip;

  [[nodiscard]] size_t num_text_lines() const { return lines.size() + (caption.empty() ? 0 : 1); }
};

/// The frames of a program, in the order of its nodes. `has_code` says for each row group whether
/// code was generated; empty: for none.
[[nodiscard]] std::vector<LaunchFrame> launch_frames(const program::Program& program,
                                                     const std::vector<bool>& has_code);

}  // namespace reprise::compile
