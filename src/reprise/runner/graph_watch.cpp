#include "reprise/runner/graph_watch.h"

#include <utility>

#include "reprise/parallel/communicator.h"
#include "reprise/runner/expert_counts.h"

namespace reprise::runner {

GraphWatch::GraphWatch(const ModelRunnerOptions& options,
                       Execution& execution,
                       cudagraph::CapturePermission& permission,
                       StepMemory memory)
    : execution_(&execution),
      permission_(&permission),
      verification_(options.verify_graphs, execution),
      shadow_(options.shadow, execution.device(), execution.stream(), std::move(memory)) {
  if (options.keep_inventory) keep_inventory();
}

void GraphWatch::keep_inventory() {
  if (inventory_) return;
  inventory_ = std::make_unique<GraphInventory>(verification_, *permission_);
}

void GraphWatch::name_memory(const ModelRunnerOptions& options,
                             const models::Parameters& parameters,
                             const kv_cache::KvCacheTensors& kv_cache,
                             const kv_cache::StateCacheTensors& states) {
  verification_.add_weights(parameters);
  verification_.add_caches(kv_cache, states);
  if (options.expert_counts != nullptr) {
    verification_.add_memory(
        "tokens of experts", options.expert_counts->memory(), cudagraph::MemoryRole::kept);
  }
  for (parallel::Communicator* ranks : {options.ranks, options.op_ranks}) {
    if (ranks == nullptr) continue;
    const std::span<std::byte> token = ranks->order_token();
    verification_.add_memory(
        "order of exchanges", {token.data(), token.size()}, cudagraph::MemoryRole::kept);
  }
}

bool GraphWatch::change(cudagraph::VerifyGraphs level, double shadow_rate, Json about) {
  const bool captures_anew = level > verification_.level() || (shadow_rate > 0 && !shadow_.is_on());
  verification_.set_level(level);
  shadow_.change(shadow_rate, std::move(about));
  return captures_anew;
}

void GraphWatch::forget(const cudagraph::PlannedKey& key) {
  shadow_.captured().forget(key);
  if (inventory_) inventory_->forget(key);
}

cudagraph::CaptureObserver* GraphWatch::observer_of(const cudagraph::DummyRun& run, bool is_noted) {
  if (!is_noted) return nullptr;
  if (inventory_) {
    inventory_->begin(run.mode, run.descriptor);
    return inventory_.get();
  }
  return verification_.is_on() ? &verification_ : nullptr;
}

device::LaunchProbe* GraphWatch::probe_of(const cudagraph::DummyRun& run, bool is_noted) {
  if (!is_noted || !shadow_.is_on()) return nullptr;
  shadow_.captured().begin(run.mode, run.descriptor);
  return &shadow_.captured();
}

GraphWatch::CaptureScope::CaptureScope(GraphWatch& watch,
                                       const cudagraph::DummyRun& run,
                                       bool is_noted)
    : observed_(*watch.permission_, watch.observer_of(run, is_noted)),
      probe_(watch.execution_->stream(), watch.probe_of(run, is_noted)) {}

}  // namespace reprise::runner
