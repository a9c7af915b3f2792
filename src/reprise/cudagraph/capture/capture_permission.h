#pragma once

#include <span>

#include "reprise/device/device.h"
#include "reprise/tensor/tensor.h"

namespace reprise::cudagraph {

/// Sees what wrappers capture, in the order in which a replay runs it.
class CaptureObserver {
 public:
  virtual ~CaptureObserver() = default;
  /// A whole key, or a part of one, was captured. The graph is borrowed for the call.
  virtual void on_graph(const device::Graph& graph) = 0;
  /// Every replay first copies its inputs to these tensors.
  virtual void on_copied_inputs(std::span<const Tensor> copies) = 0;
  /// Work between two graphs writes these tensors. That work runs eagerly, also in every replay.
  virtual void on_eager_results(std::span<const Tensor> results) = 0;
};

/// Whether wrappers may capture. The permission is open during warm-up and sealed before the first
/// request, because a capture while requests wait is a bug. All wrappers of a model share one
/// permission, which must outlive them.
class CapturePermission {
 public:
  void open() noexcept { open_ = true; }
  void seal() noexcept { open_ = false; }
  [[nodiscard]] bool is_open() const noexcept { return open_; }

  /// Lets the observer see the captures of all wrappers. Borrowed; nullptr: no observer.
  void set_observer(CaptureObserver* observer) noexcept { observer_ = observer; }
  [[nodiscard]] CaptureObserver* observer() const noexcept { return observer_; }
  /// While true, a key that already has a graph is captured again for the observer. The key keeps
  /// its first graph.
  void set_repeats(bool repeats) noexcept { repeats_ = repeats; }
  [[nodiscard]] bool repeats() const noexcept { return open_ && repeats_; }

 private:
  bool open_ = false;
  bool repeats_ = false;
  CaptureObserver* observer_ = nullptr;
};

/// Opens the permission while this object lives.
class OpenPermission {
 public:
  explicit OpenPermission(CapturePermission& permission) : permission_(permission) {
    permission_.open();
  }
  OpenPermission(const OpenPermission&) = delete;
  OpenPermission& operator=(const OpenPermission&) = delete;
  ~OpenPermission() { permission_.seal(); }

 private:
  CapturePermission& permission_;
};

}  // namespace reprise::cudagraph
