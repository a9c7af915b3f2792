#include "reprise/api/async_engine_loop.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/device/error.h"
#include "reprise/engine/engine_core.h"
#include "reprise/lora/lora_adapter.h"

namespace reprise::api {

using cudagraph::CudagraphRuntimeMode;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// nullptr: there are no comparisons.
void publish_shadow(const runner::ShadowCheck* shadow, ShadowStats& stats) {
  if (shadow == nullptr) return;
  stats.num_checks = shadow->num_checks();
  stats.num_differences = shadow->num_differences();
  if (std::exchange(stats.keys_revision, shadow->keys_revision()) == shadow->keys_revision()) {
    return;
  }
  stats.quarantined.clear();
  for (const runner::QuarantinedKey& key : shadow->keys()) {
    stats.quarantined.push_back(
        {.mode = key.mode,
         .descriptor = key.descriptor,
         .difference = key.difference.empty() ? "quarantined by request" : key.difference,
         .wrong_node = key.wrong_node,
         .report = key.report.string()});
  }
}

}  // namespace

AsyncEngineLoop::AsyncEngineLoop(engine::EngineCore& core,
                                 const tokenizer::Tokenizer& tokenizer,
                                 IdleSteps idle_steps,
                                 engine::OnRecord on_record)
    : core_(&core),
      idle_steps_(std::move(idle_steps)),
      requests_(core, tokenizer, std::move(on_record)),
      current_{.adapters = {.max_loras = core.scheduler().config().max_loras,
                            .at = seconds_since_1970()},
               .requests = RequestHistograms(core.scheduler().max_model_len())},
      stats_(current_),
      thread_([this] { run(); }) {}

AsyncEngineLoop::~AsyncEngineLoop() {
  {
    const std::lock_guard lock(mutex_);
    inbox_.stop = true;
  }
  wake_.notify_one();
  thread_.join();
}

scheduler::RequestId AsyncEngineLoop::submit(std::vector<int32_t> prompt_token_ids,
                                             const sampling::SamplingParams& params,
                                             OnDelta on_delta,
                                             scheduler::RequestOptions options,
                                             TimePoint arrived,
                                             std::optional<scheduler::RequestId> id) {
  core_->scheduler().check_admissible(prompt_token_ids, params, options);
  Submission submission = {.prompt_token_ids = std::move(prompt_token_ids),
                           .params = params,
                           .options = std::move(options),
                           .on_delta = std::move(on_delta),
                           .arrived = arrived,
                           .queued = Clock::now()};
  {
    const std::lock_guard lock(mutex_);
    submission.id = id ? *id : core_->new_request_id();
    id = submission.id;
    inbox_.submissions.push_back(std::move(submission));
  }
  wake_.notify_one();
  return *id;
}

void AsyncEngineLoop::wake() {
  {
    // Takes the lock, so that the thread is not between its look at the condition and its sleep.
    const std::lock_guard lock(mutex_);
  }
  wake_.notify_one();
}

void AsyncEngineLoop::abort(scheduler::RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.aborts.push_back(id);
  }
  wake_.notify_one();
}

void AsyncEngineLoop::run_between_steps(const std::function<void(engine::EngineCore&)>& task) {
  // The caller alone owns the exception: the thread must not destroy it while the caller reads it.
  std::exception_ptr failure;
  std::packaged_task<void()> packaged([this, &task, &failure] {
    try {
      task(*core_);
    } catch (const device::DeviceError& error) {
      if (error.is_sticky()) die(error.what());
      failure = std::current_exception();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  std::future<void> done = packaged.get_future();
  {
    const std::lock_guard lock(mutex_);
    inbox_.tasks.push_back(std::move(packaged));
  }
  wake_.notify_one();
  done.get();
  if (failure) std::rethrow_exception(failure);
}

void AsyncEngineLoop::run_when_quiet(
    const std::function<BackgroundWork(engine::EngineCore&)>& task) {
  run_between_steps([&](engine::EngineCore& core) {
    if (!death_.empty()) throw Error(death_);
    settle();
    background_ = task(core);
  });
}

void AsyncEngineLoop::pause(SleepMode mode) {
  std::future<void> is_idle;
  run_between_steps([&](engine::EngineCore&) {
    if (!death_.empty()) throw Error(death_);
    is_paused_ = true;
    if (mode == SleepMode::abort) end_live("abort", "");
    is_idle = wait_for_idle_.emplace_back().get_future();
  });
  is_idle.get();
}

void AsyncEngineLoop::resume() {
  run_between_steps([this](engine::EngineCore&) {
    is_paused_ = false;
    std::vector<Submission> held = std::exchange(held_, {});
    for (Submission& submission : held) add(submission);
  });
}

EngineStats AsyncEngineLoop::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.num_requests_waiting += static_cast<int64_t>(inbox_.submissions.size());
  return stats;
}

// --- the thread ---

void AsyncEngineLoop::run() {
  for (;;) {
    Inbox inbox = take_inbox();
    try {
      serve(inbox);
    } catch (const std::exception& error) {
      // The core reports a failed step as an update, so an exception means that the device is lost.
      die(error.what());
    }
    if (inbox.stop) break;
    publish_stats();
  }
  end_all("abort", "");
  // The other engines go on until they know that this one has no work either.
  try {
    while (wants_idle_steps()) idle_steps_.run();
  } catch (const std::exception& error) {
    die(error.what());
  }
}

void AsyncEngineLoop::serve(Inbox& inbox) {
  for (std::packaged_task<void()>& task : inbox.tasks) task();
  for (Submission& submission : inbox.submissions) {
    is_paused_ ? held_.push_back(std::move(submission)) : add(submission);
  }
  // An abort names a request that was submitted earlier, maybe in this same inbox.
  for (const scheduler::RequestId id : inbox.aborts) abort_now(id);
  if (inbox.stop) return;
  if (!core_->has_unfinished_requests() && wants_idle_steps()) {
    idle_steps_.run();
  } else {
    step();
  }
  if (background_.run && !is_paused_ && background_.is_due(!core_->has_unfinished_requests())) {
    settle();
    if (!background_.run()) background_ = {};
  }
  note_idle();
}

/// Takes the results of the steps in flight.
void AsyncEngineLoop::settle() {
  core_->hold_steps(true);
  while (!core_->is_quiet()) step();
  core_->hold_steps(false);
}

void AsyncEngineLoop::note_idle() {
  if (core_->has_unfinished_requests()) return;
  for (std::promise<void>& waiting : wait_for_idle_) waiting.set_value();
  wait_for_idle_.clear();
}

void AsyncEngineLoop::step() {
  const engine::EngineCoreCounters before = core_->counters();
  TimePoint ended;
  requests_.step([&](engine::OutputDelta&& delta) { deliver_delta(std::move(delta), ended); },
                 [&] {
                   ended = Clock::now();
                   if (core_->counters().num_steps != before.num_steps) observe_step(ended, before);
                 });
}

void AsyncEngineLoop::observe_step(TimePoint ended, const engine::EngineCoreCounters& before) {
  const runner::ModelStep& step = core_->last_step();
  for (const scheduler::StepEntry& entry : step.scheduled->scheduled) {
    if (entry.num_computed_tokens >= entry.request->num_prompt_tokens()) continue;
    const auto live = live_.find(static_cast<uint64_t>(entry.request->id()));
    if (live != live_.end()) live->second.timeline.schedule(step.began);
  }
  // A step that was scheduled ahead begins only when the step before it has ended.
  const TimePoint began = std::max(step.began, std::exchange(step_ended_, ended));
  const engine::EngineCoreCounters& after = core_->counters();
  current_.tokens_per_step.observe(static_cast<double>(after.prompt_tokens - before.prompt_tokens +
                                                       after.generation_tokens -
                                                       before.generation_tokens));
  current_.recent_steps[after.num_steps % kNumStepRecords] = {
      .index = after.num_steps,
      .mode = step.decision.mode,
      .descriptor = step.decision.descriptor,
      .reason = step.decision.reason,
      .num_tokens = step.facts.num_tokens,
      .num_reqs = step.facts.num_reqs,
      .seconds = std::chrono::duration<double>(ended - began).count()};
}

AsyncEngineLoop::Inbox AsyncEngineLoop::take_inbox() {
  std::unique_lock lock(mutex_);
  if (!core_->has_unfinished_requests() && (is_paused_ || !background_.run)) {
    wake_.wait(lock, [this] { return !inbox_.empty() || wants_idle_steps(); });
  }
  // Counts these requests as waiting until the next publication of the statistics.
  stats_.num_requests_waiting += static_cast<int64_t>(inbox_.submissions.size());
  return std::exchange(inbox_, {});
}

void AsyncEngineLoop::add(Submission& submission) {
  Live request = describe(submission);
  if (!death_.empty()) return end(request, "error", death_);
  const auto key = static_cast<uint64_t>(submission.id);
  try {
    Live& place = live_[key];
    requests_.add_request(submission.id,
                          std::move(submission.prompt_token_ids),
                          submission.params,
                          std::move(submission.options));
    place = std::move(request);
  } catch (const std::exception& error) {
    // submit() has already asked the scheduler whether the request can run, so this can only be
    // lack of memory.
    live_.erase(key);
    end(request, "error", error.what());
  }
}

AsyncEngineLoop::Live AsyncEngineLoop::describe(Submission& submission) {
  return {.id = submission.id,
          .on_delta = std::move(submission.on_delta),
          .num_prompt_tokens = static_cast<int32_t>(submission.prompt_token_ids.size()),
          .max_tokens = submission.params.max_tokens,
          .adapter = submission.options.adapter,
          .timeline = RequestTimeline(submission.arrived, submission.queued)};
}

void AsyncEngineLoop::abort_now(scheduler::RequestId id) {
  if (auto delta = requests_.abort_request(id)) deliver_delta(std::move(*delta), Clock::now());
  const auto found = std::find_if(
      held_.begin(), held_.end(), [id](const Submission& held) { return held.id == id; });
  if (found == held_.end()) return;
  Live request = describe(*found);
  held_.erase(found);
  end(request, "abort", "");
}

void AsyncEngineLoop::observe_delta(Live& live, const engine::OutputDelta& delta, TimePoint now) {
  live.num_output_tokens = delta.num_output_tokens;
  if (!delta.token_ids.empty()) {
    if (!live.timeline.has_tokens()) {
      current_.prompt_tokens += static_cast<uint64_t>(live.num_prompt_tokens);
      current_.prompt_tokens_cached += static_cast<uint64_t>(delta.num_cached_tokens);
      current_.prompt_tokens_imported += static_cast<uint64_t>(delta.num_imported_tokens);
    }
    live.timeline.take_token(now, current_.requests);
  }
  if (delta.finish_reason != "stop" && delta.finish_reason != "length") return;
  live.timeline.finish(now,
                       {.prompt_tokens = live.num_prompt_tokens,
                        .cached_tokens = delta.num_cached_tokens,
                        .generation_tokens = delta.num_output_tokens,
                        .max_tokens = live.max_tokens},
                       current_.requests);
}

void AsyncEngineLoop::deliver_delta(engine::OutputDelta&& delta, TimePoint now) {
  const auto live = live_.find(static_cast<uint64_t>(delta.id));
  observe_delta(live->second, delta, now);
  if (!delta.finished) return deliver(live->second.on_delta, std::move(delta));
  delta.times = live->second.timeline.times();
  Live ended = std::move(live->second);
  live_.erase(live);
  deliver(ended.on_delta, std::move(delta));
}

void AsyncEngineLoop::die(const std::string& reason) {
  death_ = "the engine is dead: " + reason;
  current_.is_dead = true;
  background_ = {};
  end_all("error", death_);
}

void AsyncEngineLoop::end_all(const std::string& finish_reason, const std::string& error) {
  std::vector<Submission> held = std::exchange(held_, {});
  end_live(finish_reason, error);
  for (Submission& submission : held) {
    Live request = describe(submission);
    end(request, finish_reason, error);
  }
  note_idle();
}

void AsyncEngineLoop::end_live(const std::string& finish_reason, const std::string& error) {
  LiveRequests all = std::exchange(live_, {});
  // Aborts all requests first, so that all blocks are free before the first delta is delivered.
  for (const auto& [id, live] : all) (void)requests_.abort_request(scheduler::RequestId{id});
  core_->drop_steps();
  for (auto& [id, live] : all) end(live, finish_reason, error);
}

void AsyncEngineLoop::end(Live& request,
                          const std::string& finish_reason,
                          const std::string& error) {
  deliver(request.on_delta,
          {.id = request.id,
           .num_prompt_tokens = request.num_prompt_tokens,
           .num_output_tokens = request.num_output_tokens,
           .finished = true,
           .finish_reason = finish_reason,
           .error = error});
}

void AsyncEngineLoop::deliver(OnDelta& on_delta, engine::OutputDelta&& delta) {
  const scheduler::RequestId id = delta.id;
  const bool is_last = delta.finished;
  if (is_last) {
    if (delta.finish_reason == "stop") ++current_.num_finished_stop;
    if (delta.finish_reason == "length") ++current_.num_finished_length;
    if (delta.finish_reason == "abort") ++current_.num_finished_abort;
    if (delta.finish_reason == "error") ++current_.num_finished_error;
    publish_stats();
  }
  if (!on_delta) return;
  try {
    on_delta(std::move(delta));
  } catch (...) {
    // A callback that throws must not end the engine for the other requests.
    on_delta = nullptr;
    if (!is_last) abort(id);
  }
}

void AsyncEngineLoop::publish_stats() {
  const scheduler::Scheduler& scheduler = core_->scheduler();
  const engine::EngineCoreCounters& counters = core_->counters();
  const cudagraph::DispatchLedger& ledger = core_->ledger();
  current_.num_requests_running = static_cast<int64_t>(scheduler.num_running());
  current_.num_requests_waiting = static_cast<int64_t>(scheduler.num_waiting() + held_.size());
  current_.kv_cache_usage = core_->kv_cache_manager().usage();
  current_.generation_tokens = counters.generation_tokens;
  current_.prefix_cache_queries = scheduler.prefix_cache_stats().queries;
  current_.prefix_cache_hits = scheduler.prefix_cache_stats().hits;
  current_.cached_states = core_->kv_cache_manager().num_published_snapshots();
  current_.states_saved = scheduler.prefix_cache_stats().states_saved;
  current_.states_restored = scheduler.prefix_cache_stats().states_restored;
  current_.num_preemptions = static_cast<uint64_t>(scheduler.num_preemptions());
  current_.speculation = scheduler.speculation_stats();
  current_.num_steps = counters.num_steps;
  current_.steps_full = ledger.steps(CudagraphRuntimeMode::FULL);
  current_.steps_piecewise = ledger.steps(CudagraphRuntimeMode::PIECEWISE);
  current_.steps_eager = ledger.steps(CudagraphRuntimeMode::NONE);
  current_.num_failed_steps = counters.num_failed_steps;
  current_.padding_tokens = ledger.padding_tokens();
  current_.decisions.assign(ledger.decisions().begin(), ledger.decisions().end());
  if (const cudagraph::DispatchLedger* draft = core_->draft_ledger()) {
    current_.draft_decisions.assign(draft->decisions().begin(), draft->decisions().end());
  }
  current_.num_retired_graphs = counters.retired_graphs;
  publish_shadow(core_->shadow(), current_.shadow);
  publish_shadow(core_->draft_shadow(), current_.draft_shadow);
  current_.dropped_tokens = counters.dropped_tokens;
  current_.postponed_tokens = counters.postponed_tokens;
  current_.step_times = core_->clock().times;
  publish_adapters();
  if (runner::ExpertCounts* counts = core_->expert_counts()) {
    counts->collect();
    current_.expert_layers.assign(counts->layers().begin(), counts->layers().end());
    current_.expert_tokens.assign(counts->totals().begin(), counts->totals().end());
  }
  const std::lock_guard lock(mutex_);
  stats_ = current_;
}

void AsyncEngineLoop::publish_adapters() {
  AdapterStats& adapters = current_.adapters;
  if (adapters.max_loras == 0) return;
  std::set<std::string> running;
  std::set<std::string> waiting;
  for (const auto& [id, live] : live_) {
    if (live.adapter == nullptr) continue;
    (live.timeline.was_scheduled() ? running : waiting).insert(live.adapter->name());
  }
  adapters.running.assign(running.begin(), running.end());
  adapters.waiting.assign(waiting.begin(), waiting.end());
  adapters.at = seconds_since_1970();
}

}  // namespace reprise::api
