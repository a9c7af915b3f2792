#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/tensor/tensor.h"

namespace reprise::engine {

/// The inputs of a forward, in order. All of them are views of persistent buffers.
enum ForwardInput : size_t {
  kInputIds,
  kPositions,
  kSlotMapping,
  kQueryStartLoc,
  kSeqLens,
  kBlockTable,
  kLogitsIndices,
  kNumLogits,
  kNumForwardInputs
};
using ForwardInputs = std::array<Tensor, kNumForwardInputs>;

/// One forward of a model, from a staged batch to logits: by the model's own code (level 0), or by
/// a program that was traced from it (levels 1 to 3). A Forward captures its own PIECEWISE graphs;
/// for FULL, a wrapper around the whole Forward captures it. Belongs to one thread.
class Forward {
 public:
  virtual ~Forward() = default;

  /// Puts the logits into `outputs`. \throws exceptions of its wrappers and executors
  virtual void run(cudagraph::ForwardContext& context,
                   std::span<const Tensor> inputs,  // kNumForwardInputs
                   std::vector<Tensor>& outputs) = 0;

  /// The number of PIECEWISE graphs recorded so far, and the memory of their executables.
  [[nodiscard]] virtual size_t num_piecewise_graphs() const noexcept = 0;
  [[nodiscard]] virtual size_t graph_bytes() const noexcept = 0;
  /// Memory that graphs refer to besides weights, caches and inputs.
  [[nodiscard]] virtual device::BufferView memory() const noexcept { return {}; }
};

}  // namespace reprise::engine
