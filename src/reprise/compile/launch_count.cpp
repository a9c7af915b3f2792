#include "reprise/compile/launch_count.h"

#include <algorithm>
#include <vector>

#include "reprise/tensor/view.h"

namespace reprise::compile {

using program::Node;
using program::Program;

bool is_launch(OpCode op) noexcept { return op != OpCode::empty && !is_view(op); }

size_t num_launches(const Program& program) noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(program.nodes, [](const Node& node) { return is_launch(node.op); }));
}

size_t num_launches(const program::CompiledProgram& compiled) {
  std::vector<size_t> of_program;
  for (size_t i = 0; i < compiled.split.programs.size(); ++i) {
    const Program& program = compiled.split.programs[i];
    size_t launches = num_launches(program);
    for (const Node& node : program.nodes) {
      if (node.op != OpCode::row_group) continue;
      const size_t group = node.attributes.group;
      if (compiled.code.at(i).at(group) != nullptr) continue;
      launches += num_launches(program.groups.at(group)) - 1;
    }
    of_program.push_back(launches);
  }
  size_t sum = 0;
  for (const program::Piece& piece : compiled.split.pieces) sum += of_program.at(piece.program);
  return sum;
}

}  // namespace reprise::compile
