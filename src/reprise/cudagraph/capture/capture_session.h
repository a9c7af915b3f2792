#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "reprise/cudagraph/capture/capture_report.h"
#include "reprise/cudagraph/capture/cudagraph_wrapper.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"

namespace reprise::cudagraph {

/// One forward that the session asks for, with a dummy batch of exactly this shape.
struct DummyRun {
  /// trial: the graph is timed and destroyed, so nothing about it is noted or proved.
  enum class Purpose { warm_up, capture, trial };

  Purpose purpose = Purpose::warm_up;
  /// NONE in a warm-up, the key's mode in a capture or a trial.
  CudagraphRuntimeMode mode = CudagraphRuntimeMode::NONE;
  BatchDescriptor descriptor;
  /// The mode for which the key is captured, also during its warm-up. The warm-up for FULL must run
  /// attention with the same path as the graph.
  CudagraphRuntimeMode target_mode = CudagraphRuntimeMode::NONE;
};

/// What the session needs from the owner of the model.
struct CaptureCallbacks {
  /// Runs one dummy batch. May throw; see run_capture_session().
  std::function<void(const DummyRun&)> dummy_run;
  /// Called after each capture: writes a verdict to its record, and a failure if the graph must not
  /// be replayed. May run further dummy batches. Empty: nothing is proved.
  std::function<void(const DummyRun& capture, CaptureRecord&)> verify = {};
  /// Bytes that the graph pool and all executable graphs use now.
  std::function<size_t()> memory_in_use;
  /// Seconds on a monotonic clock.
  std::function<double()> now;
  /// Called after each key with the number of keys done so far and the number of all keys. May be
  /// empty.
  std::function<void(const CaptureRecord&, size_t done, size_t total)> on_progress;
};

/// Captures all keys of the dispatcher's capture plan: for each key `num_warmups` eager runs, then
/// the capture. If a key fails, it is retired with the reason, and the session continues. The
/// permission is sealed at the end, also if an exception ends the session.
/// \throws device::DeviceError when the device is lost (is_sticky())
CaptureReport run_capture_session(CudagraphDispatcher& dispatcher,
                                  CapturePermission& permission,
                                  int num_warmups,
                                  const CaptureCallbacks& callbacks);

/// Captures one key in the same way, between two steps. The record says how long it took, and why
/// the key was retired if the capture failed. \throws device::DeviceError when the device is lost
CaptureRecord capture_key(CudagraphDispatcher& dispatcher,
                          CapturePermission& permission,
                          const PlannedKey& key,
                          int num_warmups,
                          const CaptureCallbacks& callbacks);

}  // namespace reprise::cudagraph
