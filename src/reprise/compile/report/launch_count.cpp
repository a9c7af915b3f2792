#include "reprise/compile/report/launch_count.h"

#include <algorithm>

#include "reprise/tensor/view.h"

namespace reprise::compile {

using program::Node;
using program::Program;

bool is_launch(OpCode op) noexcept { return op != OpCode::empty && !is_view(op); }

size_t num_launches(const Program& program) noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(program.nodes, [](const Node& node) { return is_launch(node.op); }));
}

size_t num_launches(const Program& program, const std::vector<bool>& has_code) {
  size_t launches = num_launches(program);
  for (const Node& node : program.nodes) {
    if (node.op != OpCode::row_group) continue;
    const size_t group = node.attributes.group;
    const bool is_one_launch = group < has_code.size() && has_code[group];
    if (!is_one_launch) launches += num_launches(program.groups.at(group)) - 1;
  }
  return launches;
}

size_t num_launches(const program::CompiledProgram& compiled) {
  std::vector<size_t> of_program;
  for (size_t i = 0; i < compiled.split.programs.size(); ++i) {
    std::vector<bool> has_code;
    for (const auto& code : compiled.code.at(i)) has_code.push_back(code != nullptr);
    of_program.push_back(num_launches(compiled.split.programs[i], has_code));
  }
  size_t sum = 0;
  for (const program::Piece& piece : compiled.split.pieces) sum += of_program.at(piece.program);
  return sum;
}

}  // namespace reprise::compile
