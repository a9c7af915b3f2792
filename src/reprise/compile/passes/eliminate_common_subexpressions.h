#pragma once

#include <cstddef>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Merges nodes with equal ops, attributes and operands: later nodes are replaced by the first one.
/// Never merges kv_write or attention, which write memory, nor `empty`, because each result needs
/// separate memory.
size_t eliminate_common_subexpressions(program::Program& program);

}  // namespace reprise::compile
