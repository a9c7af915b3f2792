#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/device/code_loader.h"
#include "reprise/program/memory_plan.h"
#include "reprise/program/split.h"
#include "reprise/tensor/op.h"

namespace reprise::program {

/// The name and type of the weight in a parameter slot. A program from the compile cache finds its
/// weights by these names, so the model need not be traced again.
struct ParameterSlot {
  std::string name;  // "model.layers.0.mlp.down_proj.weight"
  ValueType type;

  friend bool operator==(const ParameterSlot&, const ParameterSlot&) = default;
};

/// The compiler's result, which the engine runs: the pieces in order, generated code for row
/// groups, and a memory plan. A CompiledProgram may be moved while runs refer to it: pieces and
/// code keep their addresses.
struct CompiledProgram {
  SplitProgram split;
  std::vector<ParameterSlot> parameters;  // by parameter slot of the whole program
  size_t num_states = 0;                  // two per layer: its key cache, then its value cache
  /// code[p][g] is the code of group g of split.programs[p]. nullptr: the ops of the group run one
  /// by one.
  std::vector<std::vector<std::unique_ptr<const RowGroup>>> code;
  std::unique_ptr<device::LoadedCode>
      loaded_code;  // owns the kernels in `code`; nullptr: no kernels
  MemoryPlan plan;  // empty: the executor's pool provides memory for results
  /// true: every capturable piece is captured as a separate graph (level 3). false: one capture
  /// covers the whole program and is interrupted at the splitting pieces (levels 1 and 2).
  bool wrap_pieces = false;
};

}  // namespace reprise::program
