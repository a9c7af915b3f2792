#include "reprise/compile/passes/eliminate_dead_code.h"

#include <algorithm>
#include <vector>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {

using program::kNoValue;
using program::Node;
using program::Program;
using program::ValueId;

size_t eliminate_dead_code(Program& program) {
  std::vector<bool> is_needed(program.values.size());
  const auto need = [&](ValueId id) {
    if (id != kNoValue) is_needed[index_of(id)] = true;
  };
  std::for_each(program.outputs.begin(), program.outputs.end(), need);
  std::for_each(program.final_states.begin(), program.final_states.end(), need);

  ProgramEdit edit(program);
  size_t num_rewrites = 0;
  for (size_t i = program.nodes.size(); i-- > 0;) {
    const Node& node = program.nodes[i];
    if (std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
          return is_needed[index_of(id)];
        })) {
      std::for_each(node.inputs.begin(), node.inputs.end(), need);
    } else {
      edit.erase(i);
      ++num_rewrites;
    }
  }
  std::move(edit).finish();
  return num_rewrites;
}

}  // namespace reprise::compile
