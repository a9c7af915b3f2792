#pragma once

#include <cstddef>

#include "reprise/program/memory_plan.h"
#include "reprise/program/split.h"

namespace reprise::compile {

/// Whether the result with index `result` may use exactly the memory of the operand with index
/// `operand`.
using AliasRule = bool (*)(OpCode op, size_t operand, size_t result);

struct PlannedMemory {
  program::MemoryPlan plan;
  /// Bytes per token that the plan takes, and bytes that are alive at the same time at the worst
  /// moment: no plan can take less. Both count the results whose size grows with the number of
  /// tokens.
  int64_t planned_bytes_per_token = 0;
  int64_t live_bytes_per_token = 0;
};

/// Plans one place for each result of all pieces. A result lives from its computation to its last
/// use, in the order of the pieces. The largest result is placed first, each at the lowest place
/// that is free during its whole life. A result takes the place of an operand that is used last by
/// the same op, if `can_alias` allows it. \pre every piece's program is well formed
[[nodiscard]] PlannedMemory plan_memory(const program::SplitProgram& split, AliasRule can_alias);

}  // namespace reprise::compile
