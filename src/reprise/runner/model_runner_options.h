#pragma once

#include <cstdint>

#include "reprise/attention/attention_backend.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/cudagraph/verify/verify_graphs.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/kv_cache/tensors/state_cache_tensors.h"
#include "reprise/lora/adapter_slots.h"
#include "reprise/parallel/communicator.h"
#include "reprise/runner/data_parallel_steps.h"
#include "reprise/runner/expert_counts.h"
#include "reprise/runner/input_batch.h"
#include "reprise/runner/shadow_check.h"

namespace reprise::runner {

/// Which of the two forwards of an engine with adapters. An engine without adapters has only
/// `base`.
enum class ForwardKind : uint8_t {
  base,  // for batches without adapters: the model's own ops
  // For batches with adapters: each projection also adds the product of each token's adapter.
  adapters,
};

struct ModelRunnerOptions {
  BatchLimits limits;
  kv_cache::KvCacheLayout kv_cache;
  kv_cache::StateCacheLayout states;  // of recurrent layers
  cudagraph::DispatcherOptions dispatcher;
  /// The attention backend. It must support the modes in the dispatcher's options. nullptr: the
  /// backend that "auto" stands for.
  const attention::BackendInfo* attention = nullptr;
  /// The backend of the recurrent layers of a model that also has attention.
  const attention::BackendInfo* recurrent = nullptr;
  attention::AttentionPlanOptions attention_plan;
  /// The number of workers that share the attention of a step, for the rule of cascade attention;
  /// 0: no step uses cascade attention, for example because the device has no kernel for it.
  int cascade_workers = 0;
  /// The adapters of the model's layers; must outlive the runner. nullptr: the engine has none.
  lora::AdapterSlots* adapters = nullptr;
  /// Counts of the tokens of the model's experts; must outlive the runner. nullptr: tokens are not
  /// counted.
  ExpertCounts* expert_counts = nullptr;
  /// The ranks that run this model together; must outlive the runner. nullptr: this is the only
  /// rank.
  parallel::Communicator* ranks = nullptr;
  /// A second group for the collective ops, of another size than `ranks`: the tensor ranks of a
  /// stage, or the engines that share experts. nullptr: there is none.
  parallel::Communicator* op_ranks = nullptr;
  /// The engines with the same model whose steps run together with this engine's steps; must
  /// outlive the runner. nullptr: steps need no other engine. Only rank 0 of `ranks` has it.
  DataParallelSteps* data_parallel = nullptr;
  int num_warmups = 0;       // eager runs before each capture
  bool copy_inputs = false;  // cudagraph_copy_inputs
  /// cudagraph_lazy_capture: capture() does nothing, and a step whose best key has no graph yet
  /// captures it first. \pre false with several ranks
  bool lazy_capture = false;
  /// How much is proved about each graph before it may be replayed.
  cudagraph::VerifyGraphs verify_graphs = cudagraph::VerifyGraphs::capture;
  /// Which replayed steps are compared with eager runs. \pre if any are, no `data_parallel`
  ShadowCheckOptions shadow;
  /// Captured nodes are recorded, for a profile of a graph. \pre verify_graphs is not off
  bool keep_inventory = false;
  /// A step fails if the dispatcher's decision breaks the configuration's promise (see
  /// cudagraph::keeps_promise). \pre no `data_parallel`
  bool strict_graphs = false;
};

/// The settings of a runner's graphs that can change between two steps.
struct GraphSettings {
  cudagraph::DispatcherOptions dispatcher;
  int num_warmups = 0;
  cudagraph::VerifyGraphs verify_graphs = cudagraph::VerifyGraphs::capture;
  double shadow_rate = 0;
  Json about = Json::object();  // see ShadowCheckOptions
};

}  // namespace reprise::runner
