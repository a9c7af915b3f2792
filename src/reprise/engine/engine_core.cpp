#include "reprise/engine/engine_core.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "reprise/device/error.h"
#include "reprise/engine/step_thread.h"

namespace reprise::engine {

namespace {

int num_state_reqs(const kv_cache::StateCacheLayout& states, const EngineCoreOptions& options) {
  // Without the null slot.
  const int64_t num_slots = std::max<int64_t>(states.num_slots - 1, 0);
  return static_cast<int>((num_slots - options.num_state_snapshots) / states.slots_per_req);
}

}  // namespace

EngineCore::EngineCore(runner::ModelRunner& runner, const EngineCoreOptions& options)
    : options_(options),
      kv_cache_manager_(static_cast<int>(runner.kv_cache().layout().num_blocks),
                        static_cast<int>(runner.kv_cache().layout().block_size),
                        options.enable_prefix_caching ? kv_cache::PrefixCaching::on
                                                      : kv_cache::PrefixCaching::off,
                        num_state_reqs(runner.states().layout(), options),
                        options.num_state_snapshots,
                        static_cast<int>(runner.states().layout().slots_per_req)),
      scheduler_(options.scheduler, kv_cache_manager_, options.drafter),
      ledger_(options.scheduler.max_num_batched_tokens),
      computer_(runner, options.scheduler, options.row_sampler, options.drafter) {
  computer_.watch_arrivals(next_id_);
  const bool is_async = options.scheduler.async_scheduling;
  const size_t num_steps = is_async ? scheduler::Scheduler::kMaxStepsInFlight : 1;
  steps_.reserve(num_steps);
  for (size_t i = 0; i < num_steps; ++i) steps_.emplace_back(options.scheduler);
  kv_cache_manager_.set_listener(options.cache_listener);
  launches_ahead_ = is_async && options.row_sampler != nullptr;
  if (is_async && !launches_ahead_) thread_ = std::make_unique<StepThread>(computer_);
}

EngineCore::~EngineCore() = default;

scheduler::RequestId EngineCore::add_request(std::vector<int32_t> prompt_token_ids,
                                             const sampling::SamplingParams& params,
                                             scheduler::RequestOptions options) {
  const scheduler::RequestId id = new_request_id();
  add_request(id, std::move(prompt_token_ids), params, std::move(options));
  return id;
}

void EngineCore::add_request(scheduler::RequestId id,
                             std::vector<int32_t> prompt_token_ids,
                             const sampling::SamplingParams& params,
                             scheduler::RequestOptions options) {
  const std::vector<int32_t>& decoder_prompt = options_.scheduler.decoder_prompt;
  if (!decoder_prompt.empty()) {
    scheduler_.check_admissible(prompt_token_ids, params, options);
    options.encoder_token_ids = std::exchange(prompt_token_ids, decoder_prompt);
  }
  auto request = std::make_unique<scheduler::Request>(
      id, std::move(prompt_token_ids), params, options_.seed, std::move(options));
  const auto added = requests_.emplace(static_cast<uint64_t>(id), std::move(request)).first;
  try {
    scheduler_.add_request(*added->second);
  } catch (...) {
    requests_.erase(added);
    throw;
  }
}

std::span<const EngineCore::Update> EngineCore::step() {
  while (!is_held_ && scheduler_.can_schedule() && launch_step()) {
  }
  if (num_under_way_ == 0) return {};
  const std::span<const Update> updates = take_results();
  report_cache();
  return updates;
}

void EngineCore::report_cache() const {
  if (options_.cache_listener != nullptr) options_.cache_listener->on_step_end();
}

// Returns false when there is no step to compute.
bool EngineCore::launch_step() {
  runner::ModelStep& step = steps_[(oldest_ + num_under_way_) % steps_.size()];
  step.began = std::chrono::steady_clock::now();
  step.spans.clear();
  const scheduler::SchedulerOutput* output = nullptr;
  {
    const runner::PhaseTimer timer(step.spans, runner::StepPhase::schedule);
    output = &scheduler_.schedule();
    for (const scheduler::RequestId id : output->finished_request_ids)
      requests_.erase(static_cast<uint64_t>(id));
  }
  if (output->empty()) return false;
  {
    const runner::PhaseTimer timer(step.spans, runner::StepPhase::prepare);
    step.prepare(*output, options_.scheduler);
  }
  launch(step);
  ++num_under_way_;
  return true;
}

void EngineCore::launch(runner::ModelStep& step) {
  if (thread_ != nullptr) {
    thread_->submit(step);
  } else if (!launches_ahead_) {
    computer_.compute(step);
  } else if (num_under_way_ == 0) {
    computer_.launch(step, nullptr);
  } else {
    runner::ModelStep& ahead = steps_[oldest_];
    if (!computer_.can_launch(step, ahead)) computer_.finish(ahead);
    if (!ahead.is_finished) ++counters_.steps_launched_ahead;
    computer_.launch(step, &ahead);
  }
}

void EngineCore::wait_for_oldest() {
  if (launches_ahead_) computer_.finish(steps_[oldest_]);
  if (thread_ == nullptr) return;
  const runner::TimePoint begin = std::chrono::steady_clock::now();
  thread_->wait();
  // This wait overlaps the time in which the other thread works on the step. So it only counts in
  // the sums of phases and is not a span of the step.
  const runner::PhaseSpan waited{
      .phase = runner::StepPhase::wait, .begin = begin, .end = std::chrono::steady_clock::now()};
  clock_.times[waited.phase] += waited.seconds();
}

std::span<const EngineCore::Update> EngineCore::take_results() {
  wait_for_oldest();
  runner::ModelStep& step = steps_[oldest_];
  oldest_ = (oldest_ + 1) % steps_.size();
  --num_under_way_;
  last_step_ = &step;
  const ProfiledStepScope profiled(clock_, counters_.num_steps + 1, step.began);
  record(step);
  return step.error ? fail(step) : apply(step);
}

std::span<const EngineCore::Update> EngineCore::apply(runner::ModelStep& step) {
  const runner::PhaseTimer timer(clock_, runner::StepPhase::sample);
  auto logprobs = std::make_move_iterator(step.prompt_logprobs.begin());
  auto pooled = std::make_move_iterator(step.pooled.begin());
  for (const scheduler::StepEntry& entry : step.scheduled->scheduled) {
    for (int i = 0; i < entry.num_prompt_logits; ++i)
      entry.request->add_prompt_logprobs(*logprobs++);
    if (entry.samples && !step.pooled.empty()) entry.request->set_pooled(*pooled++);
  }
  const auto num_rows = static_cast<size_t>(step.scheduled->num_sampled_rows);
  const std::span<const Update> updates =
      scheduler_.update_from_output(std::span(step.sampled).first(num_rows));
  count(step, updates);
  return updates;
}

std::span<const EngineCore::Update> EngineCore::fail(const runner::ModelStep& step) {
  try {
    std::rethrow_exception(step.error);
  } catch (const device::DeviceError& error) {
    const std::span<const Update> updates = fail_scheduled(error.what());
    if (!error.is_sticky()) return updates;
    drop_steps();
    throw;
  } catch (const std::exception& error) {
    return fail_scheduled(error.what());
  }
}

std::span<const EngineCore::Update> EngineCore::fail_scheduled(std::string_view reason) {
  ++counters_.num_failed_steps;
  clock_.profiler.fail_step();
  return scheduler_.fail_scheduled(reason);
}

void EngineCore::drop_steps() {
  for (; num_under_way_ > 0; --num_under_way_, oldest_ = (oldest_ + 1) % steps_.size()) {
    wait_for_oldest();
    (void)scheduler_.fail_scheduled("its step was dropped");
  }
}

bool EngineCore::reset_prefix_cache() {
  // All requests may have ended while a step that contains them is still in flight; that step holds
  // their blocks.
  if (scheduler_.num_running() + scheduler_.num_waiting() == 0) drop_steps();
  const bool is_reset = kv_cache_manager_.reset_prefix_cache();
  report_cache();
  return is_reset;
}

void EngineCore::count(const runner::ModelStep& step, std::span<const Update> updates) {
  ++counters_.num_steps;
  for (const scheduler::StepEntry& entry : step.scheduled->scheduled) {
    const int num_prompt_tokens_left =
        entry.request->num_prompt_tokens() - entry.num_computed_tokens;
    counters_.prompt_tokens +=
        static_cast<uint64_t>(std::clamp(num_prompt_tokens_left, 0, entry.num_tokens()));
  }
  size_t num_updated_requests = 0;
  const scheduler::Request* previous = nullptr;
  for (const Update& update : updates) {
    if (update.new_token_id) ++counters_.generation_tokens;
    if (std::exchange(previous, update.request) != update.request) ++num_updated_requests;
  }
  counters_.tokens_sampled_on_device += static_cast<uint64_t>(step.num_sampled_on_device);
  counters_.postponed_tokens += static_cast<uint64_t>(step.num_postponed);
  // Each request that sampled has an update, unless it had already ended: then its token was
  // dropped.
  const auto num_sampled =
      static_cast<size_t>(step.scheduled->num_sampling_requests - step.num_postponed);
  counters_.dropped_tokens += num_sampled - std::min(num_sampled, num_updated_requests);
}

// Counts the decision of a step and the time of its phases.
void EngineCore::record(const runner::ModelStep& step) {
  const auto count_decision = [this, &step](const cudagraph::Decision& decision) {
    ledger_.record(step.facts, decision);
    clock_.profiler.decide(step.facts, decision);
  };
  if (step.retired) {
    count_decision(*step.retired);
    ++counters_.retired_graphs;
  }
  count_decision(step.decision);
  for (runner::PhaseSpan span : step.spans.all()) {
    // If a computing thread exists, `wait` has two meanings. In the step's spans, it is the time
    // for which that thread waits for the device. In clock_, it is the time for which the caller
    // waits for that thread. So the thread's own wait is counted as launch.
    if (thread_ != nullptr && span.phase == runner::StepPhase::wait)
      span.phase = runner::StepPhase::launch;
    clock_.add(span);
  }
}

std::optional<EngineCore::Update> EngineCore::abort_request(scheduler::RequestId id) {
  const auto found = requests_.find(static_cast<uint64_t>(id));
  if (found == requests_.end() || found->second->is_finished()) return std::nullopt;
  (void)scheduler_.abort_request(*found->second);
  return Update{.request = found->second.get(), .finished = true};
}

void EngineCore::finish_request(scheduler::RequestId id, const std::string& stop_string) {
  const auto found = requests_.find(static_cast<uint64_t>(id));
  if (found == requests_.end()) return;
  (void)scheduler_.finish_request(*found->second,
                                  scheduler::RequestStatus::finished_stopped,
                                  scheduler::StopReason(stop_string));
}

}  // namespace reprise::engine
