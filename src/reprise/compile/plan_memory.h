#pragma once

#include <cstddef>

#include "reprise/program/memory_plan.h"
#include "reprise/program/split.h"

namespace reprise::compile {

/// Whether result `result` of an op may be written exactly over its operand `operand`.
using AliasRule = bool (*)(OpCode op, size_t operand, size_t result);

struct PlannedMemory {
  program::MemoryPlan plan;
  /// planned_bytes_per_token: the bytes per token that the plan takes. live_bytes_per_token: the
  /// largest number of bytes per token that are needed at the same time; no plan can take less.
  /// Both count only results whose size grows with the number of tokens.
  int64_t planned_bytes_per_token = 0;
  int64_t live_bytes_per_token = 0;
};

/// Plans one place for each result of all pieces. A result occupies its place from its computation
/// to its last use, in the order of the pieces. Larger results are placed first, each at the lowest
/// place that is free during that time. If an op is the last use of an operand and `can_alias`
/// allows it, its result takes the operand's place.
/// \pre every piece's program is well formed
[[nodiscard]] PlannedMemory plan_memory(const program::SplitProgram& split, AliasRule can_alias);

}  // namespace reprise::compile
