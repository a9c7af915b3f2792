#include "reprise/runner/guarded_forward.h"

#include <algorithm>
#include <utility>

namespace reprise::runner {
namespace {

// The traced program, unchanged. It is split only to find where captures are interrupted.
program::CompiledProgram as_traced(const program::Program& traced,
                                   const program::SplittingOps& splitting_ops) {
  program::CompiledProgram program;
  program.split = program::split(traced, splitting_ops);
  program.num_states = traced.states.size();
  program.code.resize(program.split.programs.size());
  return program;
}

}  // namespace

GuardedForward::GuardedForward(TraceAt trace_at,
                               program::SplittingOps splitting_ops,
                               std::unique_ptr<Forward> own_code,
                               Execution& execution,
                               const cudagraph::CapturePermission& permission,
                               const ProgramForwardOptions& options)
    : trace_at_(std::move(trace_at)),
      splitting_ops_(std::move(splitting_ops)),
      own_code_(std::move(own_code)),
      execution_(&execution),
      permission_(&permission),
      options_(options) {}

void GuardedForward::run(cudagraph::ForwardContext& context,
                         std::span<const Tensor> inputs,
                         std::vector<Tensor>& outputs) {
  const int64_t num_tokens = inputs[kInputIds].size(0);
  const Guarded* guarded = find(num_tokens);
  if (guarded == nullptr) guarded = trace_for(num_tokens);
  if (guarded != nullptr && guarded->program != nullptr) {
    return guarded->program->run(context, inputs, outputs);
  }
  ++num_own_code_runs_;
  own_code_->run(context, inputs, outputs);
}

const GuardedForward::Guarded* GuardedForward::find(int64_t num_tokens) const noexcept {
  const auto found = std::ranges::find(guarded_, num_tokens, &Guarded::num_tokens);
  return found == guarded_.end() ? nullptr : &*found;
}

const GuardedForward::Guarded* GuardedForward::trace_for(int64_t num_tokens) {
  if (guarded_.size() >= kMaxPrograms) return nullptr;
  Guarded guarded{.num_tokens = num_tokens, .program = nullptr};
  try {
    const program::TracedProgram traced = trace_at_(num_tokens);
    guarded.program = std::make_unique<ProgramForward>(as_traced(traced.program, splitting_ops_),
                                                       traced.slots,
                                                       /*arena=*/nullptr,
                                                       *execution_,
                                                       *permission_,
                                                       options_);
  } catch (const program::TraceError&) {
    // The guard without a program stays, so that this number of tokens is not traced again in every
    // step.
    guarded.program.reset();
  }
  guarded_.push_back(std::move(guarded));
  return &guarded_.back();
}

size_t GuardedForward::num_programs() const noexcept {
  return static_cast<size_t>(std::ranges::count_if(
      guarded_, [](const Guarded& guarded) { return guarded.program != nullptr; }));
}

size_t GuardedForward::num_piecewise_graphs() const noexcept {
  size_t graphs = own_code_->num_piecewise_graphs();
  for (const Guarded& guarded : guarded_) {
    if (guarded.program != nullptr) graphs += guarded.program->num_piecewise_graphs();
  }
  return graphs;
}

size_t GuardedForward::graph_bytes() const noexcept {
  size_t bytes = own_code_->graph_bytes();
  for (const Guarded& guarded : guarded_) {
    if (guarded.program != nullptr) bytes += guarded.program->graph_bytes();
  }
  return bytes;
}

void GuardedForward::forget(const cudagraph::BatchDescriptor& descriptor) {
  own_code_->forget(descriptor);
  for (const Guarded& guarded : guarded_) {
    if (guarded.program != nullptr) guarded.program->forget(descriptor);
  }
}

}  // namespace reprise::runner
