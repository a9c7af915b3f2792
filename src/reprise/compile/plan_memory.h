#pragma once

#include <cstddef>

#include "reprise/program/memory_plan.h"
#include "reprise/program/split.h"

namespace reprise::compile {

/// Whether `result` of an op may lie exactly where `operand` lies.
using AliasRule = bool (*)(OpCode op, size_t operand, size_t result);

struct PlannedMemory {
  program::MemoryPlan plan;
  /// Bytes per token that the plan takes, and that are alive at once at the worst moment: no plan
  /// can take less. Of the results whose size grows with the number of tokens.
  int64_t planned_bytes_per_token = 0;
  int64_t live_bytes_per_token = 0;
};

/// One place for each result of all pieces, from when each is computed and last used in the order
/// of the pieces. Largest first, each at the lowest place that is free all its life. A result takes
/// the place of an operand that dies there, if `can_alias` allows it. \pre every piece's program is
/// well formed
[[nodiscard]] PlannedMemory plan_memory(const program::SplitProgram& split, AliasRule can_alias);

}  // namespace reprise::compile
