#include "reprise/compile/passes/sink_norm_below_gather.h"

#include <optional>
#include <utility>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Program;
using program::ValueId;

class NormSinker {
 public:
  explicit NormSinker(Program& program) : program_(program), edit_(program) {}

  size_t run() && {
    size_t num_rewrites = 0;
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      if (program_.nodes[i].op == OpCode::gather_rows && sink_into(i)) ++num_rewrites;
    }
    std::move(edit_).finish();
    return num_rewrites;
  }

 private:
  bool sink_into(size_t index) {
    const Node gather = program_.nodes[index];
    const std::optional<size_t> norm_index = edit_.definition(gather.inputs[0]);
    if (!norm_index || edit_.is_erased(*norm_index)) return false;
    Node norm = program_.nodes[*norm_index];
    const bool has_sum = norm.op == OpCode::fused_add_rms_norm;
    if (norm.op != OpCode::rms_norm && !has_sum) return false;
    if (norm.outputs[0] != gather.inputs[0] || edit_.num_uses(norm.outputs[0]) != 1) return false;
    if (has_sum && edit_.num_uses(norm.outputs[1]) != 0) return false;
    const program::ValueType rows = program_.type(gather.outputs[0]);
    const size_t num_gathered = has_sum ? 2 : 1;
    for (size_t i = 0; i < num_gathered; ++i) {
      Node part = gather;
      part.inputs[0] = norm.inputs[i];
      part.outputs = {edit_.add_value(rows)};
      norm.inputs[i] = part.outputs[0];
      edit_.insert_before(index, std::move(part));
    }
    norm.outputs[0] = gather.outputs[0];
    if (has_sum) norm.outputs[1] = edit_.add_value(rows);
    program_.nodes[index] = std::move(norm);
    edit_.erase(*norm_index);
    return true;
  }

  Program& program_;
  ProgramEdit edit_;
};

}  // namespace

size_t sink_norm_below_gather(Program& program) {
  // A gather that has moved before one norm may now follow another norm.
  size_t total = 0;
  while (const size_t num_rewrites = NormSinker(program).run()) total += num_rewrites;
  return total;
}

}  // namespace reprise::compile
