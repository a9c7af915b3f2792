#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/tensor/tensor.h"

namespace reprise::runner {

/// Positions in the inputs of a forward. All inputs are views of persistent buffers.
enum ForwardInput : size_t {
  kInputIds,
  kPositions,
  kSlotMapping,
  kQueryStartLoc,
  kSeqLens,
  kBlockTable,
  kLogitsIndices,
  kNumLogits,
  kStateIndices,                  // only of models with recurrent layers
  kHiddenStates = kStateIndices,  // only for draft heads, which have no recurrent layers
  kEncoderLens = kStateIndices,   // only for models with an encoder, which have neither of these
  kEncoderBlockTable,
  kMaxForwardInputs
};
/// The inputs of one step. Most models use all but the last.
using ForwardInputs = std::array<Tensor, kMaxForwardInputs>;

/// Positions in the outputs of a forward.
enum ForwardOutput : size_t {
  kLogits,
  kAuxiliary,  // only if a draft head reads the model: ForwardContext::auxiliary
  kMaxForwardOutputs
};

/// One forward of a model, from a staged batch to logits. It runs the model's own code (level 0) or
/// programs that were traced from it (levels 1 to 3). A Forward captures PIECEWISE graphs itself.
/// FULL graphs are captured by a wrapper around the whole Forward. Belongs to one thread.
class Forward {
 public:
  virtual ~Forward() = default;

  /// Runs the forward and stores its results in `outputs`, by ForwardOutput. \throws exceptions of
  /// its wrappers and executors
  virtual void run(cudagraph::ForwardContext& context,
                   std::span<const Tensor> inputs,  // by ForwardInput
                   std::vector<Tensor>& outputs) = 0;

  /// The number of PIECEWISE graphs captured so far, and the memory of their executable graphs.
  [[nodiscard]] virtual size_t num_piecewise_graphs() const noexcept = 0;
  [[nodiscard]] virtual size_t graph_bytes() const noexcept = 0;
  /// Destroys the PIECEWISE graphs of a key. \pre none of them runs
  virtual void forget(const cudagraph::BatchDescriptor& descriptor) = 0;
  /// Further memory that graphs refer to, besides weights, caches and inputs. If it moved, graphs
  /// would be invalid.
  [[nodiscard]] virtual device::BufferView memory() const noexcept { return {}; }
};

}  // namespace reprise::runner
