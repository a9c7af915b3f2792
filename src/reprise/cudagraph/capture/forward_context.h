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

/// What one step tells everything it passes through: the dispatcher's decision and the facts that a
/// captured graph cannot take as arguments. An argument of the forward, never a global; lives on
/// the stack of the step, borrows everything.
struct ForwardContext {
  CudagraphRuntimeMode runtime_mode = CudagraphRuntimeMode::NONE;
  BatchDescriptor descriptor;
  device::Stream* stream = nullptr;
  /// What this step's forward reads, for work that runs between graphs: recorded arguments would be
  /// those of another step. In the order that the engine and its forwards agree on.
  std::span<const Tensor> inputs;
  /// Metadata of this step's batch for attention layers; null in steps without attention.
  const attention::AttentionMetadata* attention = nullptr;
  /// Memory besides the inputs that recorded work refers to by address: persistent buffers, caches,
  /// weights. Wrappers compare it with what they recorded before every replay.
  std::span<const device::BufferView> bindings;
  /// Set by a PIECEWISE wrapper that captures without a compiler; see split_point().
  BreakableCapture* breakable = nullptr;
};

}  // namespace reprise::cudagraph
