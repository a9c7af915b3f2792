#include "reprise/runner/model_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "reprise/device/error.h"
#include "reprise/program/ranged_programs.h"
#include "reprise/runner/graph_trial.h"
#include "reprise/runner/graph_watch.h"
#include "reprise/runner/measured_sizes.h"
#include "reprise/runner/quarantine_report.h"
#include "reprise/runner/step_parts.h"

namespace reprise::runner {
namespace {

using cudagraph::CudagraphRuntimeMode;

StepMemory memory_of_steps(const ModelRunnerOptions& options,
                           const kv_cache::KvCacheTensors& kv_cache,
                           const kv_cache::StateCacheTensors& states,
                           const InputBatch& batch,
                           device::BufferView hidden) {
  std::vector<device::BufferView> inputs;
  if (hidden.bytes > 0) inputs.push_back(hidden);
  if (options.adapters != nullptr) inputs.push_back(options.adapters->token_slots().extent());
  return {kv_cache, states, batch, std::move(inputs)};
}

/// For the engine, a lost rank is the same as a lost device.
template <typename Run>
decltype(auto) with_ranks(const Run& run) {
  try {
    return run();
  } catch (const parallel::RankError& error) {
    throw device::DeviceError(error.what(), device::DeviceError::Severity::sticky);
  }
}

}  // namespace

ModelRunner::ModelRunner(Execution& execution,
                         models::CausalLM& model,
                         const models::Parameters& parameters,
                         const ModelRunnerOptions& options)
    : execution_(&execution),
      options_(options),
      kv_cache_(options.kv_cache, execution.device(), execution.executor()),
      states_(options.states, execution.device(), execution.executor()),
      batch_(options.limits, execution.device(), execution.executor()),
      inputs_(options.limits, model, parameters, execution),
      attention_(options, model, execution),
      forwards_(execution, model, parameters, options_, caches()),
      parts_(make_step_parts(options, model, states_, attention_, execution)),
      watch_(std::make_unique<GraphWatch>(
          options,
          execution,
          forwards_.permission(),
          memory_of_steps(options, kv_cache_, states_, batch_, hidden_memory()))) {
  for (attention::AttentionLayer* layer : model.attention_layers()) layer->bind_caches(caches());
  inputs_.add_binding(kv_cache_.memory());
  inputs_.add_binding(states_.memory());
  inputs_.add_binding(batch_.memory());
  if (hidden_memory().bytes > 0) inputs_.add_binding(hidden_memory());
  if (options.expert_counts != nullptr) inputs_.add_binding(options.expert_counts->memory());
  inputs_.add_plan_binding();
  watch_->name_memory(options_, parameters, kv_cache_, states_);
  last_.outputs.reserve(kMaxForwardOutputs);
  dispatcher_.initialize_cudagraph_keys(options.dispatcher);
  execution.executor().set_rank_groups({options.ranks, options.op_ranks});
  if (options.ranks != nullptr || options.data_parallel != nullptr) {
    ranked_.emplace(options.ranks, options.data_parallel, dispatcher_);
  }
}

ModelRunner::~ModelRunner() = default;

program::TracedProgram ModelRunner::trace(ForwardKind kind) const { return forwards_.trace(kind); }

std::vector<program::ParameterSlot> ModelRunner::parameter_slots(
    const program::TracedProgram& traced) const {
  return forwards_.parameter_slots(traced);
}

void ModelRunner::use_programs(program::RangedPrograms programs, ForwardKind kind) {
  const device::BufferView memory = forwards_.use_programs(std::move(programs), kind);
  if (memory.bytes > 0) inputs_.add_binding(memory);
  watch_->verification().add_memory(
      "results of programs", memory, cudagraph::MemoryRole::workspace);
}

void ModelRunner::use_guards(program::SplittingOps splitting_ops, ForwardKind kind) {
  forwards_.use_guards(std::move(splitting_ops), kind);
}

cudagraph::CaptureCallbacks ModelRunner::capture_callbacks(
    std::function<void(const cudagraph::CaptureRecord&, size_t, size_t)> on_progress) {
  return {
      .dummy_run = [this](const cudagraph::DummyRun& run) { dummy_run(run); },
      .verify = [this](const cudagraph::DummyRun& capture,
                       cudagraph::CaptureRecord& record) { verify_capture(capture, record); },
      .memory_in_use = [this] { return execution_->graph_pool().reserved_bytes() + graph_bytes(); },
      .now = monotonic_seconds,
      .on_progress = std::move(on_progress)};
}

cudagraph::CaptureRecord ModelRunner::capture_between_steps(const cudagraph::PlannedKey& key) {
  cudagraph::CaptureRecord record = cudagraph::capture_key(
      dispatcher_, forwards_.permission(), key, options_.num_warmups, capture_callbacks({}));
  if (!record.failure.empty()) {
    watch_->retire({record.mode, record.descriptor, record.failure});
    forget(key);
  }
  return record;
}

std::optional<cudagraph::CaptureRecord> ModelRunner::capture_next() {
  if (options_.lazy_capture) return {};
  const std::optional<cudagraph::PlannedKey> key = dispatcher_.next_planned();
  if (!key) return {};
  return capture_between_steps(*key);
}

void ModelRunner::forget(const cudagraph::PlannedKey& key) {
  forwards_.forget(key);
  watch_->forget(key);
}

size_t ModelRunner::change_graphs(GraphSettings settings) {
  REPRISE_ASSERT(!ranked_,
                 "a plan cannot change on one of several ranks: the others would keep the old one");
  execution_->stream().synchronize();
  drop_outputs();
  std::vector<cudagraph::PlannedKey> dropped = dispatcher_.replan(settings.dispatcher);
  options_.num_warmups = settings.num_warmups;
  const bool captures_anew =
      watch_->change(settings.verify_graphs, settings.shadow_rate, std::move(settings.about));
  if (captures_anew) {
    for (const cudagraph::KeyStatus& status : dispatcher_.key_states()) {
      if (status.state != cudagraph::KeyState::captured) continue;
      dispatcher_.release(status.key.mode, status.key.descriptor);
      dropped.push_back(status.key);
    }
  }
  for (const cudagraph::PlannedKey& key : dropped) forget(key);
  return dropped.size();
}

bool ModelRunner::quarantine_key(const cudagraph::PlannedKey& key) {
  if (!dispatcher_.retire(
          key.mode, key.descriptor, "quarantined by request", cudagraph::Retirement::quarantined)) {
    return false;
  }
  execution_->stream().synchronize();
  forget(key);
  watch_->shadow().add({.mode = key.mode, .descriptor = key.descriptor});
  return true;
}

bool ModelRunner::release_key(const cudagraph::PlannedKey& key) {
  if (!dispatcher_.release(key.mode, key.descriptor)) return false;
  execution_->stream().synchronize();
  forget(key);
  watch_->shadow().remove(key);
  return true;
}

std::string ModelRunner::note_nodes(const cudagraph::PlannedKey& key) {
  watch_->keep_inventory();
  GraphVerification& verification = watch_->verification();
  const cudagraph::VerifyGraphs level = verification.level();
  if (!verification.is_on()) verification.set_level(cudagraph::VerifyGraphs::capture);
  (void)release_key(key);
  const cudagraph::CaptureRecord record = capture_between_steps(key);
  verification.set_level(level);
  return record.failure;
}

std::span<const RetiredGraph> ModelRunner::retired_graphs() const noexcept {
  return watch_->retired();
}
const ShadowCheck* ModelRunner::shadow() const noexcept { return &watch_->shadow(); }
GraphInventory* ModelRunner::inventory() noexcept { return watch_->inventory(); }

cudagraph::VerifyGraphs ModelRunner::verify_level() const noexcept {
  return watch_->verification().level();
}

cudagraph::CaptureReport ModelRunner::capture(
    const std::function<void(const cudagraph::CaptureRecord&, size_t, size_t)>& on_progress,
    const cudagraph::LadderReport* known) {
  // Ranks load their weights at different speeds, so they wait for each other here.
  for (parallel::Communicator* ranks : {options_.ranks, options_.op_ranks}) {
    if (ranks != nullptr) {
      ranks->barrier(parallel::Operation::start_up, parallel::Patience::unlimited);
    }
  }
  if (options_.lazy_capture) return {};
  std::optional<cudagraph::LadderReport> ladder;
  if (options_.dispatcher.rule == cudagraph::CaptureSizeRule::measured) {
    ladder = drop_what_does_not_pay(*this, dispatcher_, forwards_.permission(), known);
  }
  cudagraph::CaptureReport report = cudagraph::run_capture_session(
      dispatcher_, forwards_.permission(), options_.num_warmups, capture_callbacks(on_progress));
  report.ladder = std::move(ladder);
  // A trial is not possible if other ranks would have to replay the same key at the same time, or
  // if the texts of an encoder would have to be computed first.
  const bool can_try = !ranked_ && !options_.limits.has_encoder;
  if (can_try && watch_->verification().level() == cudagraph::VerifyGraphs::strict) {
    GraphTrial(*this, options_.expert_counts).try_keys(dispatcher_, report);
    drop_outputs();
    spans_.clear();
  }
  if (ranked_) ranked_->compare_capture(report);
  return report;
}

double ModelRunner::time_dummy(const cudagraph::BatchFacts& batch,
                               const cudagraph::Decision& decision) {
  batch_.stage_dummy(staged_shape(decision, batch.num_reqs, batch.num_logits),
                     {batch.num_tokens, batch.num_reqs, batch.num_logits},
                     execution_->stream());
  for (const auto& part : parts_) part->stage_dummy(decision.descriptor, execution_->stream());
  execution_->stream().synchronize();
  const double start = monotonic_seconds();
  run_staged(decision.descriptor, decision.mode);
  execution_->stream().synchronize();
  const double seconds = monotonic_seconds() - start;
  drop_outputs();
  return seconds * 1e6;
}

void ModelRunner::stage_dummy(const StagedShape& shape,
                              const cudagraph::BatchDescriptor& descriptor,
                              DummyTokens tokens) {
  batch_.stage_dummy(shape, execution_->stream(), tokens);
  for (const auto& part : parts_) part->stage_dummy(descriptor, execution_->stream());
}

void ModelRunner::grow_caches(int64_t num_blocks, int64_t num_slots) {
  kv_cache_.grow(num_blocks);
  states_.grow(num_slots);
}

void ModelRunner::run_largest_step(StepWork work) {
  const BatchLimits& limits = options_.limits;
  const cudagraph::BatchDescriptor descriptor{.num_tokens = limits.max_num_tokens,
                                              .has_lora = has_adapters()};
  stage_dummy({.num_tokens = limits.max_num_tokens,
               .num_reqs = std::min(limits.max_num_tokens, limits.max_num_reqs),
               .num_logits_rows = std::min(limits.max_num_tokens, limits.max_num_logits())},
              descriptor);
  run_staged(descriptor, CudagraphRuntimeMode::NONE, nullptr, work);
  drop_outputs();
  execution_->stream().synchronize();
}

void ModelRunner::verify_capture(const cudagraph::DummyRun& capture,
                                 cudagraph::CaptureRecord& record) {
  if (watch_->verification().level() == cudagraph::VerifyGraphs::strict) {
    // Captures the same key over a batch with other tokens, lengths and slots.
    const SecondCapture second(forwards_.permission(), watch_->verification());
    dummy_run(capture);
  }
  watch_->verification().judge(record);
}

void ModelRunner::dummy_run(const cudagraph::DummyRun& run) {
  const bool captures = run.purpose != cudagraph::DummyRun::Purpose::warm_up;
  const bool is_noted = run.purpose == cudagraph::DummyRun::Purpose::capture;
  // While the pieces of a PIECEWISE key are captured, attention runs between them. Its results are
  // not used, so it gets no tokens: otherwise it would take nearly all the time of the capture. A
  // second capture then uses the other kind of dummy tokens.
  const bool skips_attention = captures && run.target_mode == CudagraphRuntimeMode::PIECEWISE &&
                               execution_->device().is_host_accessible();
  const DummyTokens tokens = skips_attention != forwards_.permission().repeats()
                                 ? DummyTokens::padding
                                 : DummyTokens::of_requests;
  const cudagraph::Decision as_if{.mode = run.target_mode, .descriptor = run.descriptor};
  // A PIECEWISE graph serves any number of requests. The largest number exercises the most memory.
  const int32_t num_reqs = std::min(run.descriptor.num_tokens, options_.limits.max_num_reqs);
  stage_dummy(staged_shape(as_if, num_reqs, 0), run.descriptor, tokens);
  const kernels::PoolScope memory(execution_->executor(),
                                  captures ? execution_->graph_pool() : execution_->eager_pool());
  {
    const GraphWatch::CaptureScope noted(*watch_, run, is_noted);
    run_staged(run.descriptor, run.mode);
  }
  if (is_noted && watch_->shadow().is_on()) {
    watch_->shadow().reserve(run.descriptor.num_tokens, num_reqs, last_.outputs);
  }
  // The results have no meaning. Dropping them frees their memory for the next key.
  drop_outputs();
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

const StepResult& ModelRunner::execute(std::span<const scheduler::StepEntry> requests,
                                       const cudagraph::BatchFacts& facts,
                                       const TokensOnDevice& tokens) {
  cudagraph::BatchFacts decided = facts;
  if (!ranked_ || ranked_->decides_attention()) decided.cascade = attention_.prefers_cascade(facts);
  if (!ranked_) return execute_agreed(requests, decided, tokens);
  return with_ranks([&]() -> const StepResult& {
    const cudagraph::BatchFacts agreed = ranked_->agree(requests, decided).value_or(decided);
    return execute_agreed(requests, agreed, tokens);
  });
}

bool ModelRunner::execute_idle() {
  REPRISE_ASSERT(options_.data_parallel != nullptr,
                 "this engine's steps do not need other engines");
  return with_ranks([&] {
    const std::optional<cudagraph::BatchFacts> agreed = ranked_->agree({}, {});
    if (!agreed) return false;
    (void)execute_agreed({}, *agreed, {});
    wait();
    spans_.clear();
    return true;
  });
}

const StepResult& ModelRunner::execute_agreed(std::span<const scheduler::StepEntry> requests,
                                              const cudagraph::BatchFacts& facts,
                                              const TokensOnDevice& tokens) {
  // Tokens that only the device knows must not be overwritten, so a step with such tokens captures
  // nothing.
  if (options_.lazy_capture && tokens.places.empty()) {
    const std::optional<cudagraph::PlannedKey> key = dispatcher_.uncaptured_key(facts);
    if (key) (void)capture_between_steps(*key);
  }
  cudagraph::Decision decision = dispatcher_.dispatch(facts);
  // The key of a graph says whether it has adapters. An eager step has them if its batch does.
  if (decision.mode == CudagraphRuntimeMode::NONE) {
    decision.descriptor.has_lora = facts.num_active_loras > 0;
    decision.descriptor.num_active_loras = facts.num_active_loras;
  }
  last_.result.decision = decision;
  last_.result.retired.reset();
  spans_.clear();
  if (ranked_) ranked_->compare(decision, requests);
  if (options_.strict_graphs) require_promise(facts, decision);
  const StepLaunches before = launches_so_far();
  const cudagraph::BatchFacts* cascade = facts.cascade ? &facts : nullptr;
  try {
    const bool is_shadowed =
        decision.mode != CudagraphRuntimeMode::NONE && watch_->shadow().chooses_step();
    const StepResult& result = is_shadowed
                                   ? run_shadowed(requests, decision, tokens, cascade)
                                   : run(requests, decision, decision.mode, tokens, cascade);
    if (options_.strict_graphs) require_promise(facts, result.decision);
    if (facts.uniform) last_.decode_launches = last_.launches;
    return result;
  } catch (const cudagraph::StaleAddressError& error) {
    // The replay was refused before anything was launched, so this step can still run eagerly.
    retire_stale(decision, error.what(), before);
  }
  last_.result.retired = decision;
  cudagraph::Decision eager{.descriptor = {.num_tokens = facts.num_tokens,
                                           .has_lora = facts.num_active_loras > 0,
                                           .num_active_loras = facts.num_active_loras},
                            .reason = cudagraph::DispatchReason::key_retired};
  if (options_.strict_graphs && !ranked_) require_promise(facts, eager);
  // Other ranks replay this key in this step, so the exchanges keep the padded size.
  if (ranked_) {
    (void)run(requests, decision, CudagraphRuntimeMode::NONE, tokens, cascade);
    eager.descriptor.num_tokens = decision.descriptor.num_tokens;
    last_.result.decision = eager;
    if (options_.strict_graphs) require_promise(facts, eager);
    return last_.result;
  }
  last_.result.decision = eager;
  return run(requests, eager, CudagraphRuntimeMode::NONE, tokens, cascade);
}

void ModelRunner::retire_stale(const cudagraph::Decision& decision,
                               const std::string& reason,
                               StepLaunches before) {
  watch_->retire({decision.mode, decision.descriptor, reason});
  const bool has_launched = launches_so_far() != before;
  if (ranked_) return ranked_->retire_stale(decision, reason, has_launched);
  dispatcher_.retire(decision.mode, decision.descriptor, reason);
  // Pieces before the one whose memory moved may have run. An eager run writes the same keys and
  // values to the cache again, but a recurrent state must not take the same token twice.
  if (!states_.tensors().empty() && has_launched) {
    throw Error(
        fmt::format("the step stopped after recurrent layers had changed states: {}", reason));
  }
}

int32_t ModelRunner::stage(std::span<const scheduler::StepEntry> requests,
                           const cudagraph::Decision& decision,
                           const TokensOnDevice& tokens) {
  const PhaseTimer timer(spans_, StepPhase::prepare);
  int32_t num_logits = 0;
  for (const scheduler::StepEntry& request : requests) num_logits += request.num_logits();
  device::Stream& stream = execution_->stream();
  for (const auto& part : parts_) part->stage(requests, decision.descriptor, stream);
  if (requests.empty()) {
    const int32_t num_reqs = std::min(decision.descriptor.num_tokens, options_.limits.max_num_reqs);
    batch_.stage_dummy(staged_shape(decision, num_reqs, 1), stream);
  } else {
    batch_.stage(requests,
                 staged_shape(decision, static_cast<int32_t>(requests.size()), num_logits),
                 stream);
  }
  if (!tokens.places.empty()) tokens.sampler->write_tokens(batch_.input_ids(), tokens.places);
  return num_logits;
}

const StepResult& ModelRunner::run(std::span<const scheduler::StepEntry> requests,
                                   const cudagraph::Decision& decision,
                                   CudagraphRuntimeMode run_as,
                                   const TokensOnDevice& tokens,
                                   const cudagraph::BatchFacts* cascade) {
  const int32_t num_logits = stage(requests, decision, tokens);
  const PhaseTimer timer(spans_, StepPhase::launch);
  run_staged(decision.descriptor, run_as, cascade);
  return finish(requests, decision, num_logits);
}

const StepResult& ModelRunner::finish(std::span<const scheduler::StepEntry> requests,
                                      const cudagraph::Decision& decision,
                                      int32_t num_logits) {
  for (const auto& part : parts_) part->after(requests, execution_->stream());
  StepResult& result = last_.result;
  result.decision = decision;
  result.logits = last_.outputs[kLogits];
  if (last_.outputs.size() > kAuxiliary) result.auxiliary = last_.outputs[kAuxiliary];
  result.num_logits = num_logits;
  return result;
}

const StepResult& ModelRunner::run_shadowed(std::span<const scheduler::StepEntry> requests,
                                            const cudagraph::Decision& decision,
                                            const TokensOnDevice& tokens,
                                            const cudagraph::BatchFacts* cascade) {
  const int32_t num_logits = stage(requests, decision, tokens);
  const PhaseTimer timer(spans_, StepPhase::launch);
  watch_->shadow().save_step();
  // Other ranks run this step twice, even if this rank cannot replay it.
  std::string stale;
  try {
    run_staged(decision.descriptor, decision.mode, cascade);
  } catch (const cudagraph::StaleAddressError& error) {
    if (!ranked_) throw;
    stale = error.what();
    run_staged(decision.descriptor, CudagraphRuntimeMode::NONE, cascade);
  }
  const StepLaunches replayed = last_.launches;
  watch_->shadow().keep_replay(last_.outputs, num_logits);
  // The replay has already counted the tokens of experts.
  if (options_.expert_counts != nullptr) options_.expert_counts->stage(0, execution_->stream());
  run_staged(decision.descriptor, CudagraphRuntimeMode::NONE, cascade);
  const std::optional<StepDifference> found = watch_->shadow().compare(last_.outputs, num_logits);
  const bool is_different =
      ranked_ ? ranked_->any_rank_differs(found.has_value()) : found.has_value();
  if (is_different) quarantine(requests, decision, cascade, found ? &*found : nullptr);
  finish(requests, decision, num_logits);
  last_.launches = replayed;
  cudagraph::Decision eager{.descriptor = decision.descriptor};
  if (is_different) {
    eager.reason = cudagraph::DispatchReason::key_quarantined;
  } else if (!stale.empty()) {
    retire_stale(decision, stale, launches_so_far());
    eager.reason = cudagraph::DispatchReason::key_retired;
  } else {
    return last_.result;
  }
  last_.result.retired = decision;
  last_.result.decision = eager;
  return last_.result;
}

void ModelRunner::quarantine(std::span<const scheduler::StepEntry> requests,
                             const cudagraph::Decision& decision,
                             const cudagraph::BatchFacts* cascade,
                             const StepDifference* difference) {
  QuarantinedKey key{
      .mode = decision.mode,
      .descriptor = decision.descriptor,
      .difference = difference != nullptr ? to_string(*difference) : "found by another rank"};
  std::string reason = "quarantined: " + key.difference;
  (void)dispatcher_.retire(
      decision.mode, decision.descriptor, reason, cudagraph::Retirement::quarantined);
  watch_->retire({decision.mode, decision.descriptor, std::move(reason)});
  QuarantinedStep step{.decision = decision, .requests = requests, .difference = difference};
  if (ranked_) {
    // Only this rank repeats the step.
    key.report = write_quarantine_report(watch_->shadow(), execution_->stream(), step);
  } else {
    const WrongNode wrong_node = bisect_staged(decision, cascade);
    step.wrong_node = &wrong_node;
    key.wrong_node = to_string(wrong_node);
    key.report = write_quarantine_report(watch_->shadow(), execution_->stream(), step);
    run_staged(decision.descriptor, CudagraphRuntimeMode::NONE, cascade);
  }
  watch_->shadow().add(std::move(key));
}

WrongNode ModelRunner::bisect_staged(const cudagraph::Decision& decision,
                                     const cudagraph::BatchFacts* cascade) {
  std::vector<device::BufferView> kept = {kv_cache_.memory(), states_.memory(), batch_.memory()};
  const std::span<const device::BufferView> inputs = watch_->shadow().memory().further_inputs();
  kept.insert(kept.end(), inputs.begin(), inputs.end());
  if (options_.expert_counts != nullptr) kept.push_back(options_.expert_counts->memory());
  GraphBisect bisect(
      watch_->shadow(),
      execution_->stream(),
      watch_->shadow().captured().of(decision.mode, decision.descriptor),
      std::move(kept),
      [&](CudagraphRuntimeMode run_as) { run_staged(decision.descriptor, run_as, cascade); });
  return bisect.find(decision.mode);
}

WrongNode ModelRunner::find_wrong_node(std::span<const scheduler::StepEntry> requests,
                                       const cudagraph::Decision& decision) {
  REPRISE_ASSERT(watch_->shadow().is_on() && !ranked_,
                 "the launches of captures were not recorded");
  (void)stage(requests, decision, {});
  watch_->shadow().save_step();
  return bisect_staged(decision, nullptr);
}

void ModelRunner::require_promise(const cudagraph::BatchFacts& facts,
                                  const cudagraph::Decision& decision) const {
  if (cudagraph::keeps_promise(decision.reason)) return;
  throw StrictGraphsError(
      fmt::format("--strict-graphs: a step of {} tokens of {} requests would run {} ({}): {}. "
                  "Leave out --strict-graphs to let such steps run without their graph",
                  facts.num_tokens,
                  facts.num_reqs,
                  to_string(decision.mode),
                  name(decision.reason),
                  dispatcher_.describe(facts, decision)));
}

void ModelRunner::drop_outputs() {
  last_.result.logits = Tensor{};
  last_.result.auxiliary = Tensor{};
  last_.outputs.clear();
}

void ModelRunner::run_staged(const cudagraph::BatchDescriptor& descriptor,
                             CudagraphRuntimeMode run_as,
                             const cudagraph::BatchFacts* cascade,
                             StepWork work) {
  // Dropping the results of the previous step lets this step reuse their memory.
  drop_outputs();
  const attention::AttentionMetadata& metadata = inputs_.read_metadata(batch_);
  const AttentionPath path = attention_.prepare(metadata, descriptor, run_as, cascade);
  const std::span<const Tensor> inputs = inputs_.gather(batch_, path);
  if (forwards_.permission().observer() != nullptr) [[unlikely]]
    watch_->verification().begin_key(inputs, path);
  cudagraph::ForwardContext context{.runtime_mode = run_as,
                                    .descriptor = descriptor,
                                    .stream = &execution_->stream(),
                                    .inputs = inputs,
                                    .attention = &metadata,
                                    .bindings = inputs_.bindings()};
  if (descriptor.has_lora && has_adapters()) {
    context.adapter_slots = options_.adapters->token_slots();
  }
  const StepLaunches before = launches_so_far();
  if (work == StepWork::recorded) {
    device::CaptureScope recording(execution_->stream());
    forwards_.run(context, inputs, last_.outputs);
    (void)std::move(recording).finish();
  } else {
    forwards_.run(context, inputs, last_.outputs);
  }
  const StepLaunches after = launches_so_far();
  last_.launches = {.graphs = after.graphs - before.graphs,
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
  last_.host_logits.resize(vocab_size);
  stream.copy_to_host(last_.host_logits.data(), address, vocab_size * sizeof(float));
  return last_.host_logits;
}

void ModelRunner::wait() {
  const PhaseTimer timer(spans_, StepPhase::wait);
  wait_for([this] { execution_->stream().synchronize(); });
}

void ModelRunner::wait_for(const std::function<void()>& device) {
  if (!ranked_) return device();
  with_ranks([&] { ranked_->wait_for(device); });
}

void ModelRunner::stop_other_ranks() noexcept {
  if (ranked_) ranked_->stop();
}

}  // namespace reprise::runner
