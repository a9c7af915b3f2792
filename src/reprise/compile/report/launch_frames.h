#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reprise/program/program.h"

/// The launches of a program as a picture shows them.
namespace reprise::compile {

/// One line of a frame: what it does, where in the model, and what comes out.
struct OpText {
  std::string name;
  std::string place;
  std::string type;
};

/// A launch with its ops; or, without a frame, ops that launch nothing.
struct LaunchFrame {
  bool is_launch = true;
  std::vector<OpText> lines;
  std::string caption;  // over the lines of a group
  std::string tooltip;

  [[nodiscard]] size_t num_text_lines() const { return lines.size() + (caption.empty() ? 0 : 1); }
};

/// The frames of a program, in the order of its nodes. `has_code`: by row group, whether code was
/// generated; empty: nowhere.
[[nodiscard]] std::vector<LaunchFrame> launch_frames(const program::Program& program,
                                                     const std::vector<bool>& has_code);

}  // namespace reprise::compile
