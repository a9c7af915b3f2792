#include "reprise/runner/ranged_forward.h"

#include <algorithm>
#include <utility>

namespace reprise::runner {

RangedForward::RangedForward(program::RangedPrograms programs,
                             std::vector<program::SlotTensors> slots,
                             Execution& execution,
                             const cudagraph::CapturePermission& permission,
                             const ProgramForwardOptions& options)
    : ranges_(std::move(programs.ranges)) {
  REPRISE_ASSERT(!ranges_.empty(), "there is no program for any batch");
  size_t bytes = 0;
  for (const program::CompiledProgram& program : programs.programs) {
    bytes = std::max(bytes, program::PlannedArena::bytes_of(program.plan, options.largest));
  }
  if (bytes > 0) arena_ = execution.device().allocate(bytes);
  for (size_t i = 0; i < programs.programs.size(); ++i) {
    forwards_.push_back(std::make_unique<ProgramForward>(std::move(programs.programs[i]),
                                                         std::move(slots[i]),
                                                         arena_.data(),
                                                         execution,
                                                         permission,
                                                         options));
  }
}

void RangedForward::run(cudagraph::ForwardContext& context,
                        std::span<const Tensor> inputs,
                        std::vector<Tensor>& outputs) {
  forwards_[program::program_for(ranges_, inputs[kInputIds].size(0))]->run(
      context, inputs, outputs);
}

size_t RangedForward::num_piecewise_graphs() const noexcept {
  size_t graphs = 0;
  for (const auto& forward : forwards_) graphs += forward->num_piecewise_graphs();
  return graphs;
}

size_t RangedForward::graph_bytes() const noexcept {
  size_t bytes = 0;
  for (const auto& forward : forwards_) bytes += forward->graph_bytes();
  return bytes;
}

void RangedForward::forget(const cudagraph::BatchDescriptor& descriptor) {
  for (const auto& forward : forwards_) forward->forget(descriptor);
}

const program::CompiledProgram& RangedForward::program_for(int64_t num_tokens) const {
  return forwards_[program::program_for(ranges_, num_tokens)]->program();
}

}  // namespace reprise::runner
