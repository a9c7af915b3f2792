#include "reprise/runner/model_forwards.h"

#include <algorithm>
#include <utility>

#include "reprise/runner/guarded_forward.h"
#include "reprise/runner/model_forward.h"
#include "reprise/runner/ranged_forward.h"
#include "reprise/runner/trace_forward.h"

namespace reprise::runner {

ModelForwards::ModelForwards(Execution& execution,
                             models::CausalLM& model,
                             const models::Parameters& parameters,
                             const ModelRunnerOptions& options,
                             const attention::LayerCaches& caches)
    : execution_(&execution),
      model_(&model),
      parameters_(&parameters),
      options_(&options),
      caches_(caches),
      base_(std::make_unique<ModelForward>(
          model, execution.device(), permission_, options.copy_inputs)),
      full_(
          [this](cudagraph::ForwardContext& context,
                 std::span<const Tensor> inputs,
                 std::vector<Tensor>& outputs) {
            const bool is_with = context.descriptor.has_lora && with_adapters_ != nullptr;
            (is_with ? with_adapters_ : base_)->run(context, inputs, outputs);
          },
          cudagraph::CudagraphRuntimeMode::FULL,
          execution.device(),
          permission_) {}

program::TraceSignature ModelForwards::signature() const {
  return forward_signature(*parameters_,
                           caches_,
                           options_->limits.max_blocks_per_req,
                           model_->hidden_input_size(),
                           model_->has_encoder());
}

program::TracedFunction ModelForwards::function(ForwardKind kind) const {
  return forward_function(
      *model_, kind == ForwardKind::adapters ? options_->adapters->token_slots() : Tensor{});
}

program::TracedProgram ModelForwards::trace(ForwardKind kind) const {
  const program::TraceSignature open = signature();
  require_open_tokens(model_->compile_support(), open);
  return program::trace(open, function(kind));
}

std::vector<program::ParameterSlot> ModelForwards::parameter_slots(
    const program::TracedProgram& traced) const {
  return runner::parameter_slots(traced, *parameters_);
}

ProgramForwardOptions ModelForwards::program_options() const {
  const BatchLimits& limits = options_->limits;
  return {.largest = {.num_tokens = limits.max_num_tokens,
                      .num_reqs = limits.max_num_reqs,
                      .num_logits = std::min(limits.max_num_tokens, limits.max_num_logits()),
                      .num_blocks = caches_.kv_cache->layout().addressed_blocks()},
          .copy_inputs = options_->copy_inputs};
}

std::unique_ptr<Forward>& ModelForwards::forward_to_replace(ForwardKind kind) {
  REPRISE_ASSERT(full_.counters().captures == 0 && num_piecewise_graphs() == 0,
                 "graphs of another forward exist");
  // The model's own code may still be needed for the batches of the other kind.
  if (kind == ForwardKind::base && options_->adapters != nullptr && with_adapters_ == nullptr) {
    with_adapters_ = std::move(base_);
  }
  return kind == ForwardKind::base ? base_ : with_adapters_;
}

device::BufferView ModelForwards::use_programs(program::RangedPrograms programs, ForwardKind kind) {
  std::vector<program::SlotTensors> slots;
  for (const program::CompiledProgram& program : programs.programs) {
    slots.push_back(bind_slots(program, *parameters_, caches_, execution_->executor()));
  }
  std::unique_ptr<Forward>& forward = forward_to_replace(kind);
  forward = std::make_unique<RangedForward>(
      std::move(programs), std::move(slots), *execution_, permission_, program_options());
  return forward->memory();
}

void ModelForwards::use_guards(program::SplittingOps splitting_ops, ForwardKind kind) {
  forward_to_replace(kind) = std::make_unique<GuardedForward>(
      [this, kind](int64_t num_tokens) {
        return program::trace(at_num_tokens(signature(), num_tokens), function(kind));
      },
      std::move(splitting_ops),
      std::make_unique<ModelForward>(
          *model_, execution_->device(), permission_, options_->copy_inputs),
      *execution_,
      permission_,
      program_options());
}

void ModelForwards::forget(const cudagraph::PlannedKey& key) {
  if (key.mode == cudagraph::CudagraphRuntimeMode::FULL) return full_.forget(key.descriptor);
  base_->forget(key.descriptor);
  if (with_adapters_ != nullptr) with_adapters_->forget(key.descriptor);
}

size_t ModelForwards::num_piecewise_graphs() const noexcept {
  return base_->num_piecewise_graphs() +
         (with_adapters_ == nullptr ? 0 : with_adapters_->num_piecewise_graphs());
}

size_t ModelForwards::graph_bytes() const noexcept {
  return full_.graph_bytes() + base_->graph_bytes() +
         (with_adapters_ == nullptr ? 0 : with_adapters_->graph_bytes());
}

}  // namespace reprise::runner
