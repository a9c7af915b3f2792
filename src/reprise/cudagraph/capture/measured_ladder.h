#pragma once

#include <functional>

#include "reprise/cudagraph/capture/capture_permission.h"
#include "reprise/cudagraph/capture/capture_report.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"

namespace reprise::cudagraph {

/// What the measurement needs from the owner of the model.
struct LadderCallbacks {
  /// Captures a key; its warm-up runs come before. May throw like a capture.
  std::function<void(const PlannedKey&)> capture;
  /// Destroys the graph of a key.
  std::function<void(const PlannedKey&)> forget;
  /// Runs a dummy batch with these facts under this decision, waits for it, and returns the
  /// microseconds. The batch writes to no cache block.
  std::function<double(const BatchFacts&, const Decision&)> time;
  /// Seconds on a monotonic clock.
  std::function<double()> now;
};

/// A key is kept only if its replay costs at least this part less than the way in which its batches
/// would run without it.
inline constexpr double kLeastSaving = 0.01;

/// Decides which keys of the plan pay. It captures each candidate, times its replay, and times what
/// dispatch() gives a batch of the same size without the key, in turn. Candidates that do not pay
/// are dropped from the dispatcher with a reason (Retirement::dropped). Each ladder is walked from
/// its largest size that pays against the alternative down to its smallest size.
///
/// A candidate whose capture fails stays in the plan, so that the capture session reports the
/// failure; one that has no room in memory is dropped. Afterwards no graph is left, and the other
/// keys are planned. Opens the permission for the time of the call.
/// \pre the keys are planned, none is captured \throws device::DeviceError when the device is lost
[[nodiscard]] LadderReport measure_ladders(CudagraphDispatcher& dispatcher,
                                           CapturePermission& permission,
                                           const LadderCallbacks& callbacks);

/// Drops the keys that an earlier measurement of the same plan dropped.
void drop_measured(CudagraphDispatcher& dispatcher, const LadderReport& report);

/// The batch with which a key is timed: the largest one that the key serves.
[[nodiscard]] BatchFacts batch_of_key(const PlannedKey& key, int32_t max_num_seqs);

}  // namespace reprise::cudagraph
