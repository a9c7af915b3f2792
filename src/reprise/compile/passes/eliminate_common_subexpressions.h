#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Replaces a node by an earlier node with the same op, attributes and operands. Only for ops
/// without effects: never kv_write, never attention; and each `empty` keeps its own memory.
size_t eliminate_common_subexpressions(program::Program& program);

}  // namespace reprise::compile
