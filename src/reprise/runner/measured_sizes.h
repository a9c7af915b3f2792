#pragma once

#include "reprise/cudagraph/capture/capture_permission.h"
#include "reprise/cudagraph/capture/measured_ladder.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"

namespace reprise::runner {

class ModelRunner;

/// Drops keys that do not pay from `dispatcher`, which is the runner's. `known`: the result of an
/// earlier runner of the same model, whose dropped keys are dropped again; nullptr: times the keys
/// over dummy batches. Afterwards no graph exists, and a graph pool that was empty is empty again.
/// \pre no graph of the runner is captured \throws device::DeviceError when the device is lost
[[nodiscard]] cudagraph::LadderReport drop_what_does_not_pay(
    ModelRunner& runner,
    cudagraph::CudagraphDispatcher& dispatcher,
    cudagraph::CapturePermission& permission,
    const cudagraph::LadderReport* known);

}  // namespace reprise::runner
