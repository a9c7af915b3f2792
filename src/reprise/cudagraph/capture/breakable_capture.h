#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "reprise/cudagraph/capture/capture_permission.h"
#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/device/device.h"

namespace reprise::cudagraph {

/// Work between two graphs, which runs eagerly in every replay. Its tensors do not own their
/// memory. It gets the context of the current step, so it uses that step's sizes and metadata.
using EagerCall = std::function<void(ForwardContext&)>;

/// A forward that was captured with breaks: graphs and eager calls, in their original order.
class SegmentedGraph {
 public:
  /// Submits the graphs and runs the eager calls, in their order. replay() itself allocates
  /// nothing.
  void replay(ForwardContext& context) const;

  [[nodiscard]] size_t num_segments() const noexcept { return segments_.size(); }
  [[nodiscard]] size_t num_graphs() const noexcept;
  [[nodiscard]] size_t num_breaks() const noexcept { return num_segments() - num_graphs(); }
  [[nodiscard]] size_t num_nodes() const noexcept;
  [[nodiscard]] size_t bytes() const noexcept;

 private:
  friend class BreakableCapture;
  std::vector<std::variant<std::unique_ptr<device::GraphExec>, EagerCall>> segments_;
};

/// Captures a forward into a SegmentedGraph. At each split point it ends the capture, runs the
/// split point's work eagerly, and begins a new capture. So PIECEWISE works without the compiler.
///
/// States: recording (from construction), then finished, or aborted by the destructor. While a
/// break runs, nothing is captured, and split points within it are plain calls.
class BreakableCapture {
 public:
  /// Begins a capture on `stream`. `device` and `stream` must outlive the result. `observer`: sees
  /// the segments; may be nullptr.
  BreakableCapture(device::Device& device,
                   device::Stream& stream,
                   CaptureObserver* observer = nullptr);
  BreakableCapture(const BreakableCapture&) = delete;
  BreakableCapture& operator=(const BreakableCapture&) = delete;
  ~BreakableCapture();

  /// Ends the current segment, runs `call` eagerly, stores it, and begins the next segment. The
  /// call may write only to memory that exists already: `results`, caches and states. \throws
  /// exceptions of the capture and of the call
  void break_for(ForwardContext& context, std::span<const Tensor> results, EagerCall call);

  /// \throws device::CaptureError
  [[nodiscard]] SegmentedGraph finish() &&;

 private:
  void end_segment();

  device::Device* device_;
  device::Stream* stream_;
  CaptureObserver* observer_;  // owned by the caller
  SegmentedGraph recorded_;
};

/// Marks a split point. In a breakable capture it interrupts the capture for `call`. In a FULL
/// capture, in eager runs and within another break it only calls `call`. `results`: what the call
/// writes, besides caches and states.
template <typename Call>
void split_point(ForwardContext& context, std::span<const Tensor> results, Call&& call) {
  if (context.breakable != nullptr) {
    context.breakable->break_for(context, results, EagerCall(std::forward<Call>(call)));
  } else {
    std::forward<Call>(call)(context);
  }
}

}  // namespace reprise::cudagraph
