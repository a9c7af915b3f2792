#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

struct GroupRowsOptions {
  BodyPredicate can_compile;  // empty: everything
  bool group_single_ops = false;
};

/// Ops whose rows are independent (program::is_row_wise) become groups that run as one loop over
/// rows, where one op reads a result or an operand of another.
///
/// Groups grow pair by pair. The pair that saves the most comes first: bytes per row that are not
/// written or not read any more; of equals, the first in the program. The rows of a group's results
/// are of one size. A group has up to 15 operands and results, 4 results and 64 ops. Nothing else
/// moves: a group stands where one of its ops was, after all that it reads and before all that
/// reads it, so that no effect changes places.
///
/// Views of operands are made inside; those that only groups used are gone. Equal bodies are one
/// group of the program.
size_t group_rows(program::Program& program, const GroupRowsOptions& options = {});

}  // namespace reprise::compile
