#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "reprise/cudagraph/capture/capture_report.h"
#include "reprise/cudagraph/capture/cudagraph_wrapper.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"

namespace reprise::cudagraph {

/// One forward that the session asks for: a made-up batch of exactly this shape.
struct DummyRun {
  enum class Purpose { warm_up, capture };

  Purpose purpose = Purpose::warm_up;
  /// NONE for a warm-up, the key's mode for a capture.
  CudagraphRuntimeMode mode = CudagraphRuntimeMode::NONE;
  BatchDescriptor descriptor;
  /// The mode in which the key will be captured: a warm-up for FULL must run attention too.
  CudagraphRuntimeMode target_mode = CudagraphRuntimeMode::NONE;
};

/// The functions that the session needs from the owner of the model.
struct CaptureCallbacks {
  /// Runs one made-up batch. May throw; see run_capture_session.
  std::function<void(const DummyRun&)> dummy_run;
  /// Bytes held now by the graph pool and all executables.
  std::function<size_t()> memory_in_use;
  /// Seconds on a monotonic clock.
  std::function<double()> now;
  /// Called after each key with the number of finished keys and of all keys. Optional.
  std::function<void(const CaptureRecord&, size_t done, size_t total)> on_progress;
};

/// Captures the dispatcher's whole plan: for each key `num_warmups` eager runs, then the capture. A
/// key that fails is retired with its reason, and the session continues. Seals the permission at
/// the end, also when it throws.
/// \throws device::DeviceError when the device is lost (is_sticky)
CaptureReport run_capture_session(CudagraphDispatcher& dispatcher,
                                  CapturePermission& permission,
                                  int num_warmups,
                                  const CaptureCallbacks& callbacks);

}  // namespace reprise::cudagraph
