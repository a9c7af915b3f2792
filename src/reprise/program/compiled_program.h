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

/// A parameter slot of a program by what was loaded into it, so that a program from a cache finds
/// its weights without being traced again.
struct ParameterSlot {
  std::string name;  // "model.layers.0.mlp.down_proj.weight"
  ValueType type;

  friend bool operator==(const ParameterSlot&, const ParameterSlot&) = default;
};

/// What the compiler makes of a forward and what the engine runs: pieces in order, code for their
/// groups where some was generated, and a place for every result. Values only, apart from the
/// code: moving it keeps the addresses that runs refer to.
struct CompiledProgram {
  SplitProgram split;
  std::vector<ParameterSlot> parameters;  // slots of the whole program
  size_t num_states = 0;                  // keys and values of each layer, in order of layers
  /// By program of `split`, then by its groups; null = runs op by op.
  std::vector<std::vector<std::unique_ptr<const RowGroup>>> code;
  std::unique_ptr<device::LoadedCode>
      loaded_code;  // of the kernels in `code`; null = there are none
  MemoryPlan plan;  // empty = results come from a pool
  /// Whether every capturable piece is a graph of its own (level 3), or a capture breaks at the
  /// splitting ones (levels 1 and 2).
  bool wrap_pieces = false;
};

}  // namespace reprise::program
