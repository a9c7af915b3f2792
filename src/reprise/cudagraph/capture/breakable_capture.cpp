#include "reprise/cudagraph/capture/breakable_capture.h"

#include <algorithm>
#include <utility>

namespace reprise::cudagraph {
namespace {

using GraphSegment = std::unique_ptr<device::GraphExec>;

// While a break runs, removes the capture from the context, so that split points within the break
// do not use it.
class BreakSuspension {
 public:
  explicit BreakSuspension(ForwardContext& context)
      : context_(context), suspended_(std::exchange(context.breakable, nullptr)) {}
  BreakSuspension(const BreakSuspension&) = delete;
  BreakSuspension& operator=(const BreakSuspension&) = delete;
  ~BreakSuspension() { context_.breakable = suspended_; }

 private:
  ForwardContext& context_;
  BreakableCapture* suspended_;
};

}  // namespace

void SegmentedGraph::replay(ForwardContext& context) const {
  for (const auto& segment : segments_) {
    if (const auto* graph = std::get_if<GraphSegment>(&segment)) {
      (*graph)->launch(*context.stream);
    } else {
      std::get<EagerCall>(segment)(context);
    }
  }
}

size_t SegmentedGraph::num_graphs() const noexcept {
  return static_cast<size_t>(std::count_if(segments_.begin(), segments_.end(), [](const auto& s) {
    return std::holds_alternative<GraphSegment>(s);
  }));
}

size_t SegmentedGraph::num_nodes() const noexcept {
  size_t nodes = 0;
  for (const auto& segment : segments_) {
    if (const auto* graph = std::get_if<GraphSegment>(&segment)) nodes += (*graph)->num_nodes();
  }
  return nodes;
}

size_t SegmentedGraph::bytes() const noexcept {
  size_t bytes = 0;
  for (const auto& segment : segments_) {
    if (const auto* graph = std::get_if<GraphSegment>(&segment)) bytes += (*graph)->bytes();
  }
  return bytes;
}

BreakableCapture::BreakableCapture(device::Device& device,
                                   device::Stream& stream,
                                   CaptureObserver* observer)
    : device_(&device), stream_(&stream), observer_(observer) {
  stream_->begin_capture();
}

BreakableCapture::~BreakableCapture() {
  if (stream_ != nullptr) stream_->abort_capture();
}

void BreakableCapture::end_segment() {
  const std::unique_ptr<device::Graph> graph = stream_->end_capture();
  if (observer_ != nullptr) observer_->on_graph(*graph);
  // If two breaks follow each other directly, the graph between them is empty. It is dropped,
  // because launching it would cost time.
  if (graph->num_nodes() > 0) recorded_.segments_.emplace_back(device_->instantiate(*graph));
}

void BreakableCapture::break_for(ForwardContext& context,
                                 std::span<const Tensor> results,
                                 EagerCall call) {
  end_segment();
  {
    const BreakSuspension suspension(context);
    call(context);
  }
  if (observer_ != nullptr) observer_->on_eager_results(results);
  recorded_.segments_.emplace_back(std::move(call));
  stream_->begin_capture();
}

SegmentedGraph BreakableCapture::finish() && {
  end_segment();
  stream_ = nullptr;
  return std::move(recorded_);
}

}  // namespace reprise::cudagraph
