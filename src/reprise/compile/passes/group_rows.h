#pragma once

#include <cstddef>

#include "reprise/compile/passes/pass.h"
#include "reprise/program/program.h"

namespace reprise::compile {

struct GroupRowsOptions {
  BodyPredicate can_compile;  // empty: every body
  bool group_single_ops = false;
};

/// Combines ops whose rows are independent (OpProperties::is_row_wise) into groups. A group runs as
/// one loop over rows. Two ops can be combined if one reads a result of the other, or if both read
/// the same rows.
///
/// Groups are merged pair by pair. The pair that saves most bytes per row of reading and writing
/// comes first; of equal pairs, the first in the program. All results of a group have the same
/// number of rows. A group has at most 15 operands and results together, 4 results and 64 ops. No
/// other node moves: a group takes the place of one of its ops, after all nodes that it reads and
/// before all nodes that read it. So reads and writes of memory keep their order.
///
/// Views of operands become part of the group's body, and views that only groups used are removed.
/// Groups with equal bodies share one body.
size_t group_rows(program::Program& program, const GroupRowsOptions& options = {});

}  // namespace reprise::compile
