#include "reprise/runner/measured_sizes.h"

#include "reprise/runner/model_runner.h"
#include "reprise/runner/step_times.h"

namespace reprise::runner {
namespace {

using cudagraph::CudagraphRuntimeMode;
using cudagraph::DummyRun;

void capture_for_trial(ModelRunner& runner, const cudagraph::PlannedKey& key) {
  for (int i = 0; i < runner.num_warmups(); ++i) {
    runner.dummy_run({.purpose = DummyRun::Purpose::warm_up,
                      .mode = CudagraphRuntimeMode::NONE,
                      .descriptor = key.descriptor,
                      .target_mode = key.mode});
  }
  runner.dummy_run({.purpose = DummyRun::Purpose::trial,
                    .mode = key.mode,
                    .descriptor = key.descriptor,
                    .target_mode = key.mode});
}

}  // namespace

cudagraph::LadderReport drop_what_does_not_pay(ModelRunner& runner,
                                               cudagraph::CudagraphDispatcher& dispatcher,
                                               cudagraph::CapturePermission& permission,
                                               const cudagraph::LadderReport* known) {
  if (known != nullptr) {
    cudagraph::drop_measured(dispatcher, *known);
    return *known;
  }
  Execution& execution = runner.execution();
  // If the pool holds graphs of another model, it must keep its memory.
  const bool is_empty = execution.graph_pool().reserved_bytes() == 0;
  cudagraph::LadderReport report = cudagraph::measure_ladders(
      dispatcher,
      permission,
      {.capture = [&](const cudagraph::PlannedKey& key) { capture_for_trial(runner, key); },
       .forget = [&](const cudagraph::PlannedKey& key) { runner.forget(key); },
       .time =
           [&](const cudagraph::BatchFacts& batch, const cudagraph::Decision& decision) {
             return runner.time_dummy(batch, decision);
           },
       .now = monotonic_seconds});
  // The largest candidate may need more memory than the largest key that is kept.
  if (is_empty) execution.empty_graph_pool();
  return report;
}

}  // namespace reprise::runner
