#pragma once

#include <span>
#include <utility>

#include "reprise/cudagraph/batch_descriptor.h"
#include "reprise/cudagraph/cudagraph_mode.h"
#include "reprise/device/device.h"
#include "reprise/tensor/tensor.h"

namespace reprise::attention {
struct AttentionMetadata;
}

namespace reprise::cudagraph {

class BreakableCapture;

/// The data of one step for all code that the forward runs: the dispatcher's decision, and the
/// facts that a captured graph cannot take as arguments. It is an argument of the forward, never a
/// global; it lives on the stack of the step and borrows everything.
struct ForwardContext {
  CudagraphRuntimeMode runtime_mode = CudagraphRuntimeMode::NONE;
  BatchDescriptor descriptor;
  device::Stream* stream = nullptr;
  /// The inputs of this step's forward, for work that runs between graphs: the recorded arguments
  /// belong to another step. Their order is the one that the engine and its forwards agree on.
  std::span<const Tensor> inputs;
  /// Metadata of this step's batch for attention layers; null in steps without attention.
  const attention::AttentionMetadata* attention = nullptr;
  /// Memory, besides the inputs, that recorded work refers to by address: persistent buffers,
  /// caches, weights. Before every replay, wrappers compare it with the recorded addresses.
  std::span<const device::BufferView> bindings;
  /// Set by a PIECEWISE wrapper that captures without a compiler; see split_point().
  BreakableCapture* breakable = nullptr;
};

}  // namespace reprise::cudagraph
