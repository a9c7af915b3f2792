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

/// The weight that a parameter slot of a program holds. With it, a program from a cache finds its
/// weights without being traced again.
struct ParameterSlot {
  std::string name;  // "model.layers.0.mlp.down_proj.weight"
  ValueType type;

  friend bool operator==(const ParameterSlot&, const ParameterSlot&) = default;
};

/// The compiler's result, which the engine runs: pieces in order, generated code for their groups,
/// and a place for every result. Everything but the code is a value. Moving a CompiledProgram keeps
/// the addresses that runs refer to.
struct CompiledProgram {
  SplitProgram split;
  std::vector<ParameterSlot> parameters;  // slots of the whole program
  size_t num_states = 0;                  // keys and values of each layer, in order of layers
  /// By program of `split`, then by group. nullptr: the group runs op by op.
  std::vector<std::vector<std::unique_ptr<const RowGroup>>> code;
  std::unique_ptr<device::LoadedCode>
      loaded_code;  // owns the kernels in `code`; nullptr: no kernels
  MemoryPlan plan;  // empty: results come from a pool
  /// true: every capturable piece is a graph of its own (level 3). false: one capture of the whole
  /// program breaks at the splitting pieces (levels 1 and 2).
  bool wrap_pieces = false;
};

}  // namespace reprise::program
