#include "reprise/runner/ranged_forward.h"

#include <algorithm>
#include <utility>

namespace reprise::runner {

namespace {

// The options for each program. All ranges of a program have the same multiple: if T counts groups
// of another size, the program is a different one.
std::vector<ProgramForwardOptions> options_by_program(
    const std::vector<program::ProgramRange>& ranges,
    size_t num_programs,
    const ProgramForwardOptions& options) {
  std::vector<ProgramForwardOptions> by_program(num_programs, options);
  for (const program::ProgramRange& range : ranges) {
    by_program.at(range.program).tokens_per_unit = range.tokens.multiple;
  }
  return by_program;
}

}  // namespace

RangedForward::RangedForward(program::RangedPrograms programs,
                             std::vector<program::SlotTensors> slots,
                             Execution& execution,
                             const cudagraph::CapturePermission& permission,
                             const ProgramForwardOptions& options)
    : ranges_(std::move(programs.ranges)) {
  REPRISE_ASSERT(!ranges_.empty(), "there is no program for any batch");
  const std::vector<ProgramForwardOptions> by_program =
      options_by_program(ranges_, programs.programs.size(), options);
  size_t bytes = 0;
  for (size_t i = 0; i < programs.programs.size(); ++i) {
    const program::MemoryPlan& plan = programs.programs[i].plan;
    bytes = std::max(bytes, program::PlannedArena::bytes_of(plan, largest_of(by_program[i])));
  }
  if (bytes > 0) arena_ = execution.device().allocate(bytes);
  for (size_t i = 0; i < programs.programs.size(); ++i) {
    forwards_.push_back(std::make_unique<ProgramForward>(std::move(programs.programs[i]),
                                                         std::move(slots[i]),
                                                         arena_.data(),
                                                         execution,
                                                         permission,
                                                         by_program[i]));
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
