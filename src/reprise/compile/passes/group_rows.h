#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

struct GroupRowsOptions {
  BodyPredicate can_compile;  // empty: every body
  bool group_single_ops = false;
};

/// Ops whose rows are independent (program::is_row_wise) become groups that run as one loop over
/// rows, if one op reads a result or an operand of another.
///
/// Groups grow pair by pair. The pair with the largest saving comes first: the bytes per row that
/// need no longer be written or read. Between equal pairs the first in the program wins. All
/// results of a group have rows of the same size. A group has up to 15 operands and results, 4
/// results and 64 ops. Other nodes do not move: a group takes the position of one of its ops, after
/// all nodes that it reads and before all nodes that read it, so the order of effects stays the
/// same.
///
/// Views of operands become part of the body; views that only groups used are removed. Groups with
/// equal bodies share one body of the program.
size_t group_rows(program::Program& program, const GroupRowsOptions& options = {});

}  // namespace reprise::compile
