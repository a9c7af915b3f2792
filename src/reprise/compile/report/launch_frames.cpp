#include "reprise/compile/report/launch_frames.h"

#include <string_view>
#include <utility>

#include "reprise/compile/report/launch_count.h"
#include "reprise/compile/report/split_outline.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Program;

// "model.layers.0.mlp.down_proj" -> "down_proj"
std::string_view last_name(std::string_view location) {
  const size_t dot = location.rfind('.');
  return dot == std::string_view::npos ? location : location.substr(dot + 1);
}

std::string types_of(const Program& program, const Node& node) {
  std::string text;
  for (program::ValueId output : node.outputs) {
    const program::Value& value = program.value(output);
    if (value.state) continue;  // a new version of a state: the state's name says it already
    if (!text.empty()) text += ", ";
    text += value.type.to_string();
  }
  return text;
}

}  // namespace

std::vector<LaunchFrame> launch_frames(const Program& program, const std::vector<bool>& has_code) {
  std::vector<LaunchFrame> frames;
  for (const Node& node : program.nodes) {
    if (!is_launch(node.op)) {
      // Views that follow each other share one line.
      if (frames.empty() || frames.back().is_launch)
        frames.push_back({.is_launch = false, .lines = {{}}});
      std::string& names = frames.back().lines[0].name;
      names += (names.empty() ? "" : " ") + std::string(op_name(node.op));
      continue;
    }
    LaunchFrame frame{.tooltip = node.location};
    for (std::string_view part : parts_of(program, node))
      frame.lines.push_back({.name = std::string(part)});
    if (frame.lines.empty()) frame.lines.push_back({.name = std::string(op_name(node.op))});
    frame.lines.back().type = types_of(program, node);
    if (node.op == OpCode::row_group) {
      const size_t group = node.attributes.group;
      const bool is_generated = group < has_code.size() && has_code[group];
      frame.caption = is_generated ? "row group, one generated kernel" : "row group, run op by op";
    } else if (frame.lines.size() > 1) {
      frame.caption = op_name(node.op);
    }
    // The node's location is that of all ops in its group.
    const std::string place(last_name(node.location));
    if (frame.caption.empty()) {
      frame.lines.front().place = place;
    } else if (!place.empty()) {
      frame.caption += " \xC2\xB7 " + place;
    }
    frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace reprise::compile
