#include "reprise/compile/passes/eliminate_common_subexpressions.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::OpSignature;
using program::Program;
using program::ValueId;

// Whether two nodes with this op and equal operands give equal results, so that they can be merged.
// `empty` is not pure, because two results need separate memory. A node that writes is not pure,
// because it must run as often as in the model.
bool is_pure(const Program& program, const Node& node) {
  const OpSignature signature = program::signature_of(program, node);
  return node.op != OpCode::empty && !signature.writes_states && !signature.out_buffer;
}

// The hash leaves attributes out: operands alone distinguish nearly all nodes, and the later
// comparison includes the attributes.
size_t hash_of(const Node& node) {
  size_t hash = static_cast<size_t>(node.op);
  for (ValueId id : node.inputs) hash = hash * 0x9E3779B97F4A7C15ULL + index_of(id);
  return hash;
}

bool computes_the_same(const Node& a, const Node& b) {
  return a.op == b.op && a.inputs == b.inputs && a.attributes == b.attributes;
}

}  // namespace

size_t eliminate_common_subexpressions(Program& program) {
  ProgramEdit edit(program);
  std::unordered_map<size_t, std::vector<size_t>> seen;  // hash -> nodes
  size_t num_rewrites = 0;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = edit.visit(i);
    if (!is_pure(program, node)) continue;
    std::vector<size_t>& candidates = seen[hash_of(node)];
    const auto earlier = std::find_if(candidates.begin(), candidates.end(), [&](size_t candidate) {
      return computes_the_same(program.nodes[candidate], node);
    });
    if (earlier == candidates.end()) {
      candidates.push_back(i);
      continue;
    }
    for (size_t result = 0; result < node.outputs.size(); ++result) {
      edit.replace(node.outputs[result], program.nodes[*earlier].outputs[result]);
    }
    edit.erase(i);
    ++num_rewrites;
  }
  std::move(edit).finish();
  return num_rewrites;
}

}  // namespace reprise::compile
