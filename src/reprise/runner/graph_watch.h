#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/cudagraph/capture/capture_permission.h"
#include "reprise/cudagraph/capture/capture_session.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/graph_bisect.h"
#include "reprise/runner/graph_inventory.h"
#include "reprise/runner/graph_verification.h"
#include "reprise/runner/model_runner_options.h"
#include "reprise/runner/shadow_check.h"
#include "reprise/runner/step_memory.h"
#include "reprise/runner/step_result.h"

namespace reprise::runner {

/// What a runner knows about its graphs besides how to replay them: what their captures proved,
/// which nodes they have, whether their replays are right, and which of them failed. Belongs to the
/// runner's thread.
class GraphWatch {
 public:
  /// `execution` and `permission` must outlive this object. `memory`: what a shadow check compares.
  GraphWatch(const ModelRunnerOptions& options,
             Execution& execution,
             cudagraph::CapturePermission& permission,
             StepMemory memory);

  [[nodiscard]] GraphVerification& verification() noexcept { return verification_; }
  [[nodiscard]] const GraphVerification& verification() const noexcept { return verification_; }
  [[nodiscard]] ShadowCheck& shadow() noexcept { return shadow_; }
  [[nodiscard]] const ShadowCheck& shadow() const noexcept { return shadow_; }
  /// nullptr: nodes are not noted.
  [[nodiscard]] GraphInventory* inventory() noexcept { return inventory_.get(); }
  /// Notes the nodes of graphs that are captured from now on.
  void keep_inventory();

  /// Tells the verification which memory graphs may use.
  void name_memory(const ModelRunnerOptions& options,
                   const models::Parameters& parameters,
                   const kv_cache::KvCacheTensors& kv_cache,
                   const kv_cache::StateCacheTensors& states);
  /// Changes the level of verification, and the share of compared replays and what reports say
  /// about the engine. Whether graphs that exist lack what the new settings ask of a capture.
  [[nodiscard]] bool change(cudagraph::VerifyGraphs level, double shadow_rate, Json about);
  /// Forgets what is known about a key whose graph is released.
  void forget(const cudagraph::PlannedKey& key);

  void retire(RetiredGraph graph) { retired_.push_back(std::move(graph)); }
  /// In the order in which they were retired.
  [[nodiscard]] std::span<const RetiredGraph> retired() const noexcept { return retired_; }

  /// Notes the nodes and the launches of one key's capture while the scope lives.
  class CaptureScope {
   public:
    /// `is_noted`: false for warm-ups and second captures, which this scope leaves alone.
    CaptureScope(GraphWatch& watch, const cudagraph::DummyRun& run, bool is_noted);

   private:
    ObserverScope observed_;
    ProbeScope probe_;
  };

 private:
  [[nodiscard]] cudagraph::CaptureObserver* observer_of(const cudagraph::DummyRun& run,
                                                        bool is_noted);
  [[nodiscard]] device::LaunchProbe* probe_of(const cudagraph::DummyRun& run, bool is_noted);

  Execution* execution_;
  cudagraph::CapturePermission* permission_;
  GraphVerification verification_;
  std::unique_ptr<GraphInventory> inventory_;
  ShadowCheck shadow_;
  std::vector<RetiredGraph> retired_;
};

}  // namespace reprise::runner
