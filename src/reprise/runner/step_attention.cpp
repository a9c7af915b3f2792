#include "reprise/runner/step_attention.h"

#include <algorithm>

namespace reprise::runner {
namespace {

std::unique_ptr<attention::AttentionBackend> create_attention(const ModelRunnerOptions& options,
                                                              models::CausalLM& model,
                                                              Execution& execution) {
  const attention::BackendInfo& backend =
      options.attention != nullptr ? *options.attention : attention::find_attention_backend("auto");
  int64_t max_partial_size = 0;
  for (const attention::AttentionLayer* layer : model.attention_layers()) {
    const attention::AttentionShape& shape = layer->shape();
    max_partial_size = std::max(max_partial_size, shape.num_heads * (shape.value_dim + 2));
  }
  return backend.create(
      {.device = &execution.device(),
       .executor = &execution.executor(),
       .max_num_reqs = options.limits.max_num_reqs,
       .num_kv_heads = options.kv_cache.num_kv_heads,
       .max_partial_size = max_partial_size,
       .max_context = options.kv_cache.block_size * options.limits.max_blocks_per_req,
       .plan = options.attention_plan});
}

std::unique_ptr<attention::CascadeAttention> create_cascade(const ModelRunnerOptions& options,
                                                            models::CausalLM& model,
                                                            Execution& execution) {
  const bool has_latents = !options.kv_cache.has_values;
  // Attention plans divide contexts in their own way, so they exclude cascade attention.
  const bool is_planned = options.attention != nullptr &&
                          options.attention->create == attention::create_planned_backend;
  const bool has_states = options.states.num_layers > 0;
  if (has_latents || has_states || is_planned || options.cascade_workers == 0) return nullptr;
  return attention::CascadeAttention::create(model.attention_layers(),
                                             options.limits.max_num_tokens,
                                             options.limits.max_num_reqs,
                                             options.cascade_workers,
                                             execution.device(),
                                             execution.executor());
}

}  // namespace

StepAttention::StepAttention(const ModelRunnerOptions& options,
                             models::CausalLM& model,
                             Execution& execution)
    : execution_(&execution),
      backend_(create_attention(options, model, execution)),
      recurrent_(options.recurrent != nullptr ? options.recurrent->create({}) : nullptr),
      cascade_(create_cascade(options, model, execution)) {}

AttentionPath StepAttention::prepare(const attention::AttentionMetadata& metadata,
                                     const cudagraph::BatchDescriptor& descriptor,
                                     cudagraph::CudagraphRuntimeMode run_as,
                                     const cudagraph::BatchFacts* cascade) {
  AttentionPath path = backend_->prepare_step(metadata, descriptor, execution_->stream());
  // A FULL graph contains the attention that was captured, whatever the context.
  if (cascade != nullptr && cascade_ != nullptr &&
      run_as != cudagraph::CudagraphRuntimeMode::FULL) {
    cascade_->add_to(path, *cascade, descriptor.num_tokens);
    num_cascade_steps_ += path.shared_prefix_len > 0 ? 1 : 0;
  }
  if (recurrent_) (void)recurrent_->prepare_step(metadata, descriptor, execution_->stream());
  execution_->executor().set_attention(path);
  return path;
}

}  // namespace reprise::runner
