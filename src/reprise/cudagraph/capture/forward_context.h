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

/// The facts about the current step that the code inside a forward needs: the dispatcher's
/// decision, and data that a captured graph cannot take as arguments. A context is passed as an
/// argument and is never a global. It lives on the stack during the step and borrows everything.
struct ForwardContext {
  CudagraphRuntimeMode runtime_mode = CudagraphRuntimeMode::NONE;
  BatchDescriptor descriptor;
  device::Stream* stream = nullptr;
  /// The inputs of this step's forward. Work between graphs must read these, because the tensors
  /// that were captured belong to another step. The order is agreed between the engine and its
  /// forwards (runner/forward.h).
  std::span<const Tensor> inputs;
  /// The attention metadata of this step's batch. nullptr in steps without attention.
  const attention::AttentionMetadata* attention = nullptr;
  /// Memory, besides the inputs, whose addresses are part of captured work: persistent buffers,
  /// caches, weights. Before every replay, wrappers compare these addresses with those at the
  /// capture.
  std::span<const device::BufferView> bindings;
  /// Set while a PIECEWISE wrapper captures without the compiler; see split_point().
  BreakableCapture* breakable = nullptr;
  /// Input of a draft head: the hidden states of the model that it drafts for, one row per token.
  /// Undefined for all other models.
  Tensor hidden_states;
  /// int32[at least num_tokens]: the slot of each token's adapter, -1 for none. Undefined in the
  /// forward for batches without adapters, which has no op for adapters at all.
  Tensor adapter_slots;
  /// A second result of the forward: hidden states for a draft head, one row per token. Undefined
  /// if there is no head.
  Tensor auxiliary;
};

}  // namespace reprise::cudagraph
