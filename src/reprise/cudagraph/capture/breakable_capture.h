#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "reprise/cudagraph/capture/forward_context.h"
#include "reprise/device/device.h"

namespace reprise::cudagraph {

/// Work between two graphs that runs eagerly on every step. It holds tensors that do not own their
/// memory, and it takes the context of the current step, so it sees the step's real sizes and
/// metadata.
using EagerCall = std::function<void(ForwardContext&)>;

/// A forward recorded with breaks: graphs and eager calls in their original order.
class SegmentedGraph {
 public:
  /// Submits each graph and runs each eager call in order. Allocates nothing itself.
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

/// Records a forward into a SegmentedGraph: the capture ends at each split point, the work of the
/// split point runs eagerly, and a new capture begins. With it PIECEWISE works without a compiler.
///
/// States: recording (from construction) -> finished, or aborted by the destructor. During a break
/// the capture is not recording, and split points inside the break run inline.
class BreakableCapture {
 public:
  /// Begins recording on `stream`. `device` and `stream` must outlive the result.
  BreakableCapture(device::Device& device, device::Stream& stream);
  BreakableCapture(const BreakableCapture&) = delete;
  BreakableCapture& operator=(const BreakableCapture&) = delete;
  ~BreakableCapture();

  /// Ends the current segment, runs `call` eagerly, stores it, and starts the next segment. The
  /// call must write only into memory that exists already. \throws exceptions of the capture and of
  /// the call
  void break_for(ForwardContext& context, EagerCall call);

  /// \throws device::CaptureError
  [[nodiscard]] SegmentedGraph finish() &&;

 private:
  void end_segment();

  device::Device* device_;
  device::Stream* stream_;
  SegmentedGraph recorded_;
};

/// Marks a split point. Inside a breakable capture it breaks the capture; in FULL, in eager runs
/// and inside another break it is a plain call.
template <typename Call>
void split_point(ForwardContext& context, Call&& call) {
  if (context.breakable != nullptr) {
    context.breakable->break_for(context, EagerCall(std::forward<Call>(call)));
  } else {
    std::forward<Call>(call)(context);
  }
}

}  // namespace reprise::cudagraph
