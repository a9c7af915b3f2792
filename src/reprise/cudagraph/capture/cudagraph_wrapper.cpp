#include "reprise/cudagraph/capture/cudagraph_wrapper.h"

#include <fmt/format.h>

#include <utility>

namespace reprise::cudagraph {
namespace {

// Puts the capture into the context during a capture, so that split points find it.
class BreakableOffer {
 public:
  BreakableOffer(ForwardContext& context, BreakableCapture& capture)
      : context_(context), previous_(std::exchange(context.breakable, &capture)) {}
  BreakableOffer(const BreakableOffer&) = delete;
  BreakableOffer& operator=(const BreakableOffer&) = delete;
  ~BreakableOffer() { context_.breakable = previous_; }

 private:
  ForwardContext& context_;
  BreakableCapture* previous_;
};

}  // namespace

CudagraphWrapper::CudagraphWrapper(Runnable runnable,
                                   CudagraphRuntimeMode mode,
                                   device::Device& device,
                                   const CapturePermission& permission,
                                   CudagraphWrapperOptions options)
    : runnable_(std::move(runnable)),
      mode_(mode),
      device_(&device),
      permission_(&permission),
      options_(options) {
  REPRISE_ASSERT(mode != CudagraphRuntimeMode::NONE,
                 "the mode of a wrapper must be FULL or PIECEWISE");
  REPRISE_ASSERT(!options.copy_inputs || mode == CudagraphRuntimeMode::PIECEWISE,
                 "only PIECEWISE wrappers support cudagraph_copy_inputs");
}

void CudagraphWrapper::operator()(ForwardContext& context,
                                  std::span<const Tensor> inputs,
                                  std::vector<Tensor>& outputs) {
  if (context.runtime_mode != mode_) {
    ++counters_.pass_throughs;
    runnable_(context, inputs, outputs);
    return;
  }
  const auto found = entries_.find(context.descriptor);
  if (found == entries_.end()) {
    if (!permission_->is_open()) refuse_unknown(context);
    capture(context, inputs, outputs);
    return;
  }
  if (permission_->repeats()) [[unlikely]] {
    capture_again(context, found->second, inputs, outputs);
    return;
  }
  replay(context, found->second, inputs);
  outputs = found->second.outputs;
}

void CudagraphWrapper::capture(ForwardContext& context,
                               std::span<const Tensor> inputs,
                               std::vector<Tensor>& outputs) {
  std::vector<device::Buffer> copies;
  std::vector<Tensor> recorded_inputs(inputs.begin(), inputs.end());
  if (options_.copy_inputs) {
    for (Tensor& input : recorded_inputs) {
      REPRISE_ASSERT(input.is_dense(), "cudagraph_copy_inputs needs dense inputs");
      copies.push_back(device_->allocate(input.type().bytes()));
      input = Tensor::borrow(input.type(), copies.back().data(), input.executor());
    }
    if (permission_->observer() != nullptr) {
      permission_->observer()->on_copied_inputs(recorded_inputs);
    }
  }
  Recording recording = record(context, recorded_inputs, outputs);
  for (Tensor& output : outputs) output = output.without_ownership();
  // With copied inputs, the callers' addresses may change between steps, but the bindings must not.
  const std::span<const Tensor> checked = options_.copy_inputs ? std::span<const Tensor>{} : inputs;
  entries_.emplace(context.descriptor,
                   Entry{AddressRecord(checked, context.bindings),
                         std::move(recording),
                         outputs,
                         std::move(copies)});
  ++counters_.captures;
}

void CudagraphWrapper::capture_again(ForwardContext& context,
                                     const Entry& entry,
                                     std::span<const Tensor> inputs,
                                     std::vector<Tensor>& outputs) {
  std::vector<Tensor> recorded_inputs(inputs.begin(), inputs.end());
  for (size_t i = 0; i < entry.copies.size(); ++i) {
    Tensor& input = recorded_inputs[i];
    input = Tensor::borrow(input.type(), entry.copies[i].data(), input.executor());
  }
  (void)record(context, recorded_inputs, outputs);
}

CudagraphWrapper::Recording CudagraphWrapper::record(ForwardContext& context,
                                                     std::span<const Tensor> inputs,
                                                     std::vector<Tensor>& outputs) {
  if (options_.break_at_split_points) {
    BreakableCapture capture(*device_, *context.stream, permission_->observer());
    {
      const BreakableOffer offer(context, capture);
      runnable_(context, inputs, outputs);
    }
    return std::move(capture).finish();
  }
  device::CaptureScope scope(*context.stream);
  runnable_(context, inputs, outputs);
  const std::unique_ptr<device::Graph> graph = std::move(scope).finish();
  if (permission_->observer() != nullptr) permission_->observer()->on_graph(*graph);
  return device_->instantiate(*graph);
}

void CudagraphWrapper::replay(ForwardContext& context,
                              Entry& entry,
                              std::span<const Tensor> inputs) {
  const std::span<const Tensor> checked = options_.copy_inputs ? std::span<const Tensor>{} : inputs;
  if (!entry.addresses.matches(checked, context.bindings)) [[unlikely]] {
    throw StaleAddressError(fmt::format(
        "replay of {} [{}] refused: memory it was recorded with has moved; capture again or keep "
        "the buffers in place{}",
        to_string(mode_),
        to_string(context.descriptor),
        entry.addresses.describe_mismatch(checked, context.bindings)));
  }
  for (size_t i = 0; i < entry.copies.size(); ++i) {
    context.stream->copy(entry.copies[i].data(), inputs[i].data(), inputs[i].type().bytes());
  }
  if (auto* graph = std::get_if<std::unique_ptr<device::GraphExec>>(&entry.recording)) {
    (*graph)->launch(*context.stream);
  } else {
    std::get<SegmentedGraph>(entry.recording).replay(context);
  }
  ++counters_.replays;
}

void CudagraphWrapper::refuse_unknown(const ForwardContext& context) const {
  std::string known;
  for (const auto& [descriptor, entry] : entries_)
    known += fmt::format("\n  [{}]", to_string(descriptor));
  throw UnknownKeyError(
      fmt::format("the {} wrapper was given the key [{}] and may not capture any more; keys it "
                  "holds:{}",
                  to_string(mode_),
                  to_string(context.descriptor),
                  known.empty() ? " none" : known));
}

size_t CudagraphWrapper::graph_bytes() const noexcept {
  size_t bytes = 0;
  for (const auto& [descriptor, entry] : entries_) {
    if (const auto* graph = std::get_if<std::unique_ptr<device::GraphExec>>(&entry.recording)) {
      bytes += (*graph)->bytes();
    } else {
      bytes += std::get<SegmentedGraph>(entry.recording).bytes();
    }
  }
  return bytes;
}

size_t CudagraphWrapper::num_graphs(const BatchDescriptor& descriptor) const {
  const auto found = entries_.find(descriptor);
  if (found == entries_.end()) return 0;
  const auto* segmented = std::get_if<SegmentedGraph>(&found->second.recording);
  return segmented != nullptr ? segmented->num_graphs() : 1;
}

size_t CudagraphWrapper::num_graphs() const noexcept {
  size_t graphs = 0;
  for (const auto& [descriptor, entry] : entries_) {
    const auto* segmented = std::get_if<SegmentedGraph>(&entry.recording);
    graphs += segmented != nullptr ? segmented->num_graphs() : 1;
  }
  return graphs;
}

size_t CudagraphWrapper::num_nodes(const BatchDescriptor& descriptor) const {
  const auto found = entries_.find(descriptor);
  if (found == entries_.end()) return 0;
  if (const auto* segmented = std::get_if<SegmentedGraph>(&found->second.recording)) {
    return segmented->num_nodes();
  }
  return std::get<std::unique_ptr<device::GraphExec>>(found->second.recording)->num_nodes();
}

}  // namespace reprise::cudagraph
