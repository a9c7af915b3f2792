#include "reprise/compile/scale_tokens.h"

namespace reprise::compile {
namespace {

using program::Program;
using program::Symbol;
using program::SymInt;

void scale(SymInt& size, int64_t factor) {
  if (size.symbol() != Symbol::num_tokens) return;
  size = SymInt(Symbol::num_tokens, size.coefficient() * factor, size.constant());
}

}  // namespace

void scale_tokens(Program& program, int64_t factor) {
  for (Program& group : program.groups) scale_tokens(group, factor);
  for (program::Value& value : program.values) {
    program::SymShape scaled;
    for (SymInt size : value.type.shape.sizes()) {
      scale(size, factor);
      scaled.push_back(size);
    }
    value.type.shape = scaled;
  }
  for (program::Node& node : program.nodes) {
    scale(node.attributes.begin, factor);
    scale(node.attributes.length, factor);
  }
}

}  // namespace reprise::compile
