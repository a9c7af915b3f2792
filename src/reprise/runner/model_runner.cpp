#include "reprise/runner/model_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "reprise/device/error.h"
#include "reprise/runner/encoder_texts.h"
#include "reprise/runner/model_forward.h"
#include "reprise/runner/ranged_forward.h"
#include "reprise/runner/trace_forward.h"

namespace reprise::engine {
namespace {

using cudagraph::CudagraphRuntimeMode;

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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

device::Buffer create_hidden_states(const BatchLimits& limits,
                                    models::CausalLM& model,
                                    const models::Parameters& parameters,
                                    Execution& execution) {
  const TensorType type{parameters.dtype(), {limits.max_num_tokens, model.hidden_input_size()}};
  if (type.bytes() == 0) return {};
  device::Buffer buffer = execution.device().allocate(type.bytes());
  execution.stream().fill(buffer.data(), std::byte{0}, type.bytes());
  return buffer;
}

std::unique_ptr<attention::CascadeAttention> create_cascade(const ModelRunnerOptions& options,
                                                            models::CausalLM& model,
                                                            Execution& execution) {
  const bool has_latents = !options.kv_cache.has_values;
  // A plan has a division of contexts of its own.
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

ModelRunner::ModelRunner(Execution& execution,
                         models::CausalLM& model,
                         const models::Parameters& parameters,
                         const ModelRunnerOptions& options)
    : execution_(&execution),
      model_(&model),
      parameters_(&parameters),
      options_(options),
      kv_cache_(options.kv_cache, execution.device(), execution.executor()),
      states_(options.states, execution.device(), execution.executor()),
      batch_(options.limits, execution.device(), execution.executor()),
      hidden_states_(create_hidden_states(options.limits, model, parameters, execution)),
      attention_(create_attention(options, model, execution)),
      cascade_(create_cascade(options, model, execution)),
      recurrent_(options.recurrent != nullptr ? options.recurrent->create({}) : nullptr),
      forward_(std::make_unique<ModelForward>(
          model, execution.device(), permission_, options.copy_inputs)),
      full_(
          [this](cudagraph::ForwardContext& context,
                 std::span<const Tensor> inputs,
                 std::vector<Tensor>& outputs) {
            forward_for(context.descriptor).run(context, inputs, outputs);
          },
          CudagraphRuntimeMode::FULL,
          execution.device(),
          permission_) {
  if (options.limits.has_encoder) {
    const BatchLimits limits = limits_of_encoder(options.limits);
    encoder_batch_.emplace(limits, execution.device(), execution.executor());
  }
  for (attention::AttentionLayer* layer : model.attention_layers()) layer->bind_caches(caches());
  bindings_ = parameters.memory();
  bindings_.push_back(kv_cache_.memory());
  bindings_.push_back(states_.memory());
  bindings_.push_back(batch_.memory());
  if (hidden_states_.bytes() > 0) bindings_.push_back(hidden_states_.view());
  if (options.expert_counts != nullptr) bindings_.push_back(options.expert_counts->memory());
  bindings_.push_back({});  // room for the memory of the step's attention plan
  plan_binding_ = bindings_.size() - 1;
  outputs_.reserve(kMaxForwardOutputs);
  adapter_tokens_.reserve(static_cast<size_t>(options.limits.max_num_reqs));
  dispatcher_.initialize_cudagraph_keys(options.dispatcher);
  execution.executor().set_rank_groups({options.ranks, options.op_ranks});
  if (options.ranks != nullptr && options.ranks->rank() == 0) leader_.emplace(*options.ranks);
  if (options.ranks != nullptr || options.data_parallel != nullptr) {
    planned_keys_.emplace(dispatcher_);
  }
}

program::TracedProgram ModelRunner::trace(ForwardKind kind) const {
  return program::trace(forward_signature(*parameters_,
                                          caches(),
                                          options_.limits.max_blocks_per_req,
                                          model_->hidden_input_size(),
                                          model_->has_encoder()),
                        forward_function(*model_,
                                         kind == ForwardKind::adapters
                                             ? options_.adapters->token_slots()
                                             : Tensor{}));
}

std::vector<program::ParameterSlot> ModelRunner::parameter_slots(
    const program::TracedProgram& traced) const {
  return engine::parameter_slots(traced, *parameters_);
}

void ModelRunner::use_programs(program::RangedPrograms programs, ForwardKind kind) {
  REPRISE_ASSERT(full_.counters().captures == 0 && num_piecewise_graphs() == 0,
                 "graphs of another forward exist");
  const BatchLimits& limits = options_.limits;
  std::vector<program::SlotTensors> slots;
  for (const program::CompiledProgram& program : programs.programs) {
    slots.push_back(bind_slots(program, *parameters_, caches(), execution_->executor()));
  }
  // The model's own code may still have to serve the batches of the other kind.
  if (kind == ForwardKind::base && has_adapters() && adapter_forward_ == nullptr) {
    adapter_forward_ = std::move(forward_);
  }
  std::unique_ptr<Forward>& forward = kind == ForwardKind::base ? forward_ : adapter_forward_;
  forward = std::make_unique<RangedForward>(
      std::move(programs),
      std::move(slots),
      *execution_,
      permission_,
      ProgramForwardOptions{
          .largest = {.num_tokens = limits.max_num_tokens,
                      .num_reqs = limits.max_num_reqs,
                      .num_logits = std::min(limits.max_num_tokens, limits.max_num_logits()),
                      .num_blocks = kv_cache_.layout().num_blocks},
          .copy_inputs = options_.copy_inputs});
  if (forward->memory().bytes > 0) bindings_.push_back(forward->memory());
}

Forward& ModelRunner::forward_for(const cudagraph::BatchDescriptor& descriptor) noexcept {
  return descriptor.has_lora && adapter_forward_ != nullptr ? *adapter_forward_ : *forward_;
}

size_t ModelRunner::num_piecewise_graphs() const noexcept {
  size_t graphs = forward_->num_piecewise_graphs();
  if (adapter_forward_ != nullptr) graphs += adapter_forward_->num_piecewise_graphs();
  return graphs;
}

void ModelRunner::stage_adapters(std::span<const BatchRequest> requests, int32_t num_tokens) {
  adapter_tokens_.clear();
  for (const BatchRequest& request : requests) {
    adapter_tokens_.push_back({.adapter = request.adapter, .num_tokens = request.query_len()});
  }
  options_.adapters->stage(adapter_tokens_, num_tokens, execution_->stream());
}

cudagraph::CaptureCallbacks ModelRunner::capture_callbacks(
    std::function<void(const cudagraph::CaptureRecord&, size_t, size_t)> on_progress) {
  return {
      .dummy_run = [this](const cudagraph::DummyRun& run) { dummy_run(run); },
      .memory_in_use = [this] { return execution_->graph_pool().reserved_bytes() + graph_bytes(); },
      .now = monotonic_seconds,
      .on_progress = std::move(on_progress)};
}

void ModelRunner::capture_before_step(const cudagraph::BatchFacts& facts) {
  const std::optional<cudagraph::PlannedKey> key = dispatcher_.uncaptured_key(facts);
  if (!key) return;
  const cudagraph::CaptureRecord record = cudagraph::capture_key(
      dispatcher_, permission_, *key, options_.num_warmups, capture_callbacks({}));
  if (!record.failure.empty()) retired_.push_back({record.mode, record.descriptor, record.failure});
}

cudagraph::CaptureReport ModelRunner::capture(
    const std::function<void(const cudagraph::CaptureRecord&, size_t, size_t)>& on_progress) {
  // Ranks load their weights at different speeds.
  for (parallel::Communicator* ranks : {options_.ranks, options_.op_ranks}) {
    if (ranks != nullptr) {
      ranks->barrier(parallel::Operation::start_up, parallel::Patience::unlimited);
    }
  }
  if (options_.lazy_capture) return {};
  cudagraph::CaptureReport report = cudagraph::run_capture_session(
      dispatcher_, permission_, options_.num_warmups, capture_callbacks(on_progress));
  if (options_.ranks != nullptr) agree_on_capture(*options_.ranks, dispatcher_, report);
  if (options_.data_parallel != nullptr) {
    agree_on_capture(options_.data_parallel->ranks(), dispatcher_, report);
  }
  return report;
}

void ModelRunner::run_largest_step() {
  const BatchLimits& limits = options_.limits;
  batch_.stage_dummy({.num_tokens = limits.max_num_tokens,
                      .num_reqs = std::min(limits.max_num_tokens, limits.max_num_reqs),
                      .num_logits_rows = std::min(limits.max_num_tokens, limits.max_num_logits())},
                     execution_->stream());
  if (has_adapters()) {
    options_.adapters->stage_dummy(limits.max_num_tokens, execution_->stream());
  }
  run_staged({.num_tokens = limits.max_num_tokens, .has_lora = has_adapters()},
             CudagraphRuntimeMode::NONE);
  outputs_.clear();
  execution_->stream().synchronize();
}

void ModelRunner::dummy_run(const cudagraph::DummyRun& run) {
  const cudagraph::Decision as_if{.mode = run.target_mode, .descriptor = run.descriptor};
  // A PIECEWISE graph serves any number of requests. The largest number exercises the most memory.
  const int32_t num_reqs = std::min(run.descriptor.num_tokens, options_.limits.max_num_reqs);
  // While the pieces of a PIECEWISE key are captured, attention runs between them. Its results are
  // not used, so it gets no tokens: it would take nearly all the time of the capture.
  const bool skips_attention = run.purpose == cudagraph::DummyRun::Purpose::capture &&
                               run.target_mode == CudagraphRuntimeMode::PIECEWISE &&
                               execution_->device().is_host_accessible();
  batch_.stage_dummy(staged_shape(as_if, num_reqs, 0),
                     execution_->stream(),
                     skips_attention ? DummyTokens::padding : DummyTokens::of_requests);
  if (run.descriptor.has_lora) {
    options_.adapters->stage_dummy(run.descriptor.num_tokens, execution_->stream());
  }
  const kernels::PoolScope memory(execution_->executor(),
                                  run.purpose == cudagraph::DummyRun::Purpose::capture
                                      ? execution_->graph_pool()
                                      : execution_->eager_pool());
  run_staged(run.descriptor, run.mode);
  // The results mean nothing. Dropping them frees their memory for the next key.
  outputs_.clear();
  execution_->stream().synchronize();
}

StagedShape ModelRunner::staged_shape(const cudagraph::Decision& decision,
                                      int32_t num_reqs,
                                      int32_t num_logits) const {
  StagedShape shape{.num_tokens = decision.descriptor.num_tokens, .num_reqs = num_reqs};
  switch (decision.mode) {
    case CudagraphRuntimeMode::FULL:
      shape.num_reqs = decision.descriptor.num_reqs.value_or(num_reqs);
      shape.num_logits_rows =
          std::min(shape.num_tokens, shape.num_reqs * options_.limits.max_sampled_rows_per_req);
      break;
    case CudagraphRuntimeMode::PIECEWISE:
      shape.num_logits_rows = std::min(shape.num_tokens, options_.limits.max_num_sampled_rows());
      break;
    case CudagraphRuntimeMode::NONE:
      shape.num_logits_rows = num_logits;
      break;
  }
  return shape;
}

const StepResult& ModelRunner::execute_here(std::span<const BatchRequest> requests,
                                            const cudagraph::BatchFacts& facts,
                                            const TokensOnDevice& tokens) {
  // Tokens that only the device knows stay untouched: such a step waits with its capture.
  if (options_.lazy_capture && tokens.places.empty()) capture_before_step(facts);
  cudagraph::Decision decision = dispatcher_.dispatch(facts);
  // The key of a graph says whether it has adapters. An eager step has them if its batch does.
  if (decision.mode == CudagraphRuntimeMode::NONE) {
    decision.descriptor.has_lora = facts.num_active_loras > 0;
    decision.descriptor.num_active_loras = facts.num_active_loras;
  }
  result_.decision = decision;
  result_.retired.reset();
  spans_.clear();
  if (options_.ranks != nullptr) {
    const int32_t stale =
        agree_on_step(*options_.ranks, num_rank_steps_, decision, requests, stale_key_);
    if (leader_ && stale >= 0) to_retire_.push_back(stale);
  }
  if (options_.data_parallel != nullptr) options_.data_parallel->keep(decision);
  const StepLaunches before = launches_so_far();
  const cudagraph::BatchFacts* cascade = facts.cascade ? &facts : nullptr;
  try {
    const StepResult& result = run(requests, decision, decision.mode, tokens, cascade);
    if (facts.uniform) last_decode_launches_ = last_launches_;
    return result;
  } catch (const cudagraph::StaleAddressError& error) {
    // The replay was refused before it launched anything, so this step can still run eagerly.
    retire_stale(decision, error.what(), before);
  }
  result_.retired = decision;
  cudagraph::Decision eager{.descriptor = {.num_tokens = facts.num_tokens,
                                           .has_lora = facts.num_active_loras > 0,
                                           .num_active_loras = facts.num_active_loras},
                            .reason = cudagraph::DispatchReason::key_retired};
  // Other ranks replay this key now, so the exchanges of this step keep the padded size.
  if (planned_keys_) {
    (void)run(requests, decision, CudagraphRuntimeMode::NONE, tokens, cascade);
    eager.descriptor.num_tokens = decision.descriptor.num_tokens;
    result_.decision = eager;
    return result_;
  }
  result_.decision = eager;
  return run(requests, eager, CudagraphRuntimeMode::NONE, tokens, cascade);
}

const StepResult& ModelRunner::run(std::span<const BatchRequest> requests,
                                   const cudagraph::Decision& decision,
                                   CudagraphRuntimeMode run_as,
                                   const TokensOnDevice& tokens,
                                   const cudagraph::BatchFacts* cascade) {
  int32_t num_logits = 0;
  for (const BatchRequest& request : requests) num_logits += request.num_logits();
  {
    const PhaseTimer timer(spans_, StepPhase::prepare);
    encode_texts(requests);
    if (requests.empty()) {
      const int32_t num_reqs =
          std::min(decision.descriptor.num_tokens, options_.limits.max_num_reqs);
      batch_.stage_dummy(staged_shape(decision, num_reqs, 1), execution_->stream());
    } else {
      batch_.stage(requests,
                   staged_shape(decision, static_cast<int32_t>(requests.size()), num_logits),
                   execution_->stream());
    }
    if (options_.expert_counts != nullptr) {
      int32_t num_tokens = 0;
      for (const BatchRequest& request : requests) num_tokens += request.query_len();
      options_.expert_counts->stage(num_tokens, execution_->stream());
    }
    restore_states(requests);
    if (!tokens.places.empty()) tokens.sampler->write_tokens(batch_.input_ids(), tokens.places);
    if (decision.descriptor.has_lora) stage_adapters(requests, decision.descriptor.num_tokens);
  }
  const PhaseTimer timer(spans_, StepPhase::launch);
  run_staged(decision.descriptor, run_as, cascade);
  save_states(requests);
  result_.decision = decision;
  result_.logits = outputs_[kLogits];
  if (outputs_.size() > kAuxiliary) result_.auxiliary = outputs_[kAuxiliary];
  result_.num_logits = num_logits;
  return result_;
}

Tensor ModelRunner::hidden_states() {
  return Tensor::borrow(
      {parameters_->dtype(), {batch_.shape().num_tokens, model_->hidden_input_size()}},
      hidden_states_.data(),
      execution_->executor());
}

std::span<const Tensor> ModelRunner::gather_inputs() {
  inputs_ = {batch_.input_ids(),
             batch_.positions(),
             metadata_.slot_mapping,
             metadata_.query_start_loc,
             metadata_.seq_lens,
             metadata_.block_table,
             batch_.logits_indices(),
             batch_.num_logits(),
             metadata_.state_indices};
  if (hidden_states_.bytes() > 0) inputs_[kHiddenStates] = hidden_states();
  const std::span<const Tensor> inputs = inputs_;
  if (metadata_.encoder_lens.defined()) {
    inputs_[kEncoderLens] = metadata_.encoder_lens;
    inputs_[kEncoderBlockTable] = metadata_.encoder_block_table;
    return inputs;
  }
  return inputs.first(inputs_[kStateIndices].defined() ? kStateIndices + 1 : kStateIndices);
}

void ModelRunner::run_staged(const cudagraph::BatchDescriptor& descriptor,
                             CudagraphRuntimeMode run_as,
                             const cudagraph::BatchFacts* cascade) {
  // Drop the results of the previous step, so that this step can reuse their memory.
  result_.logits = Tensor{};
  result_.auxiliary = Tensor{};
  outputs_.clear();
  metadata_ = batch_.attention_metadata();
  AttentionPath path = attention_->prepare_step(metadata_, descriptor, execution_->stream());
  // A FULL graph has the attention that was captured, for any context.
  if (cascade != nullptr && cascade_ != nullptr && run_as != CudagraphRuntimeMode::FULL) {
    cascade_->add_to(path, *cascade, descriptor.num_tokens);
    num_cascade_steps_ += path.shared_prefix_len > 0 ? 1 : 0;
  }
  if (recurrent_) {
    (void)recurrent_->prepare_step(metadata_, descriptor, execution_->stream());
  }
  execution_->executor().set_attention(path);
  // A graph reads the attention plan at the address that was captured. If that memory moves, the
  // wrapper must notice it, so the plan is one of the bindings that the wrapper compares.
  bindings_[plan_binding_] = path.plan.defined() ? path.plan.extent() : device::BufferView{};
  const std::span<const Tensor> inputs = gather_inputs();
  cudagraph::ForwardContext context{.runtime_mode = run_as,
                                    .descriptor = descriptor,
                                    .stream = &execution_->stream(),
                                    .inputs = inputs,
                                    .attention = &metadata_,
                                    .bindings = bindings_};
  const StepLaunches before = launches_so_far();
  if (descriptor.has_lora && has_adapters()) {
    context.adapter_slots = options_.adapters->token_slots();
  }
  full_(context, inputs, outputs_);
  const StepLaunches after = launches_so_far();
  last_launches_ = {.graphs = after.graphs - before.graphs,
                    .kernels = after.kernels - before.kernels};
}

StepLaunches ModelRunner::launches_so_far() const noexcept {
  const device::LaunchCounters& counters = execution_->stream().counters();
  return {.graphs = counters.graph_launches, .kernels = counters.kernel_launches};
}

std::span<const float> ModelRunner::logits_row(const StepResult& result, int32_t row) {
  REPRISE_ASSERT(row >= 0 && row < result.num_logits, "row {} of {}", row, result.num_logits);
  const auto vocab_size = static_cast<size_t>(result.logits.size(1));
  const float* address = result.logits.data_as<float>() + static_cast<size_t>(row) * vocab_size;
  device::Stream& stream = execution_->stream();
  if (execution_->device().is_host_accessible()) {
    stream.synchronize();
    return {address, vocab_size};
  }
  host_logits_.resize(vocab_size);
  stream.copy_to_host(host_logits_.data(), address, vocab_size * sizeof(float));
  return host_logits_;
}

size_t ModelRunner::graph_bytes() const noexcept {
  const size_t of_adapters = adapter_forward_ == nullptr ? 0 : adapter_forward_->graph_bytes();
  return full_.graph_bytes() + forward_->graph_bytes() + of_adapters;
}

}  // namespace reprise::engine
