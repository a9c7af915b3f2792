#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "reprise/cudagraph/capture/capture_permission.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"

namespace reprise::cudagraph {

/// What the measurement found out about one candidate of the rule measured.
struct MeasuredKey {
  PlannedKey key;
  /// What would run a batch of exactly this size without the key: a larger key of the same ladder,
  /// a PIECEWISE key, or mode NONE for an eager step of num_tokens.
  PlannedKey other;
  double microseconds = 0;        // of a replay, the median; 0: this key was not timed
  double other_microseconds = 0;  // of `other` over the same batch, the median
  std::string dropped_because;    // empty: it is kept

  [[nodiscard]] bool is_kept() const noexcept { return dropped_because.empty(); }
  /// The part of the time that the key saves; below 0, the key is slower. 0 if it was not timed.
  [[nodiscard]] double saving() const noexcept {
    return other_microseconds > 0 ? 1 - microseconds / other_microseconds : 0;
  }
};

/// The candidates of a start, those of each ladder with the largest first.
struct LadderReport {
  std::vector<MeasuredKey> keys;
  double seconds = 0;
  size_t num_runs = 0;  // dummy batches that were timed

  [[nodiscard]] size_t num_kept() const noexcept;
  /// "23 of 86 capture sizes kept; each saves 1.2 % to 48.0 % ...".
  [[nodiscard]] std::string describe() const;
};

/// What the measurement needs from the owner of the model.
struct LadderCallbacks {
  /// Captures a key; its warm-up runs come before. May throw as a capture does.
  std::function<void(const PlannedKey&)> capture;
  /// Destroys the graph of a key.
  std::function<void(const PlannedKey&)> forget;
  /// Runs a dummy batch with these facts as the decision says, waits for it, and returns the
  /// microseconds. The batch writes to no cache block.
  std::function<double(const BatchFacts&, const Decision&)> time;
  /// Seconds on a monotonic clock.
  std::function<double()> now;
};

/// A key is kept if its replay costs at least this part less than what runs its batches without it.
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
