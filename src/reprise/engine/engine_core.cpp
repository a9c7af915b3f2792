#include "reprise/engine/engine_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/device/error.h"
#include "reprise/structured_output/token_constraint.h"

namespace reprise::engine {

EngineCore::EngineCore(ModelRunner& runner, const EngineCoreOptions& options)
    : runner_(&runner),
      options_(options),
      kv_cache_manager_(static_cast<int>(runner.kv_cache().layout().num_blocks),
                        static_cast<int>(runner.kv_cache().layout().block_size),
                        options.enable_prefix_caching ? kv_cache::PrefixCaching::on
                                                      : kv_cache::PrefixCaching::off),
      scheduler_(options.scheduler, kv_cache_manager_),
      sampler_(options.scheduler.vocab_size),
      device_sampling_(options.row_sampler) {
  const auto max_num_seqs = static_cast<size_t>(options.scheduler.max_num_seqs);
  rows_.reserve(max_num_seqs);
  sampled_.resize(max_num_seqs);
  is_on_device_.reserve(max_num_seqs);
  finished_.reserve(max_num_seqs);  // what a step has done must not be lost for want of memory
}

RequestId EngineCore::add_request(std::vector<int32_t> prompt_token_ids,
                                  const sampling::SamplingParams& params,
                                  RequestOptions options) {
  const RequestId id{next_id_++};
  auto request = std::make_unique<Request>(
      id, std::move(prompt_token_ids), params, options_.seed, std::move(options));
  const auto added = requests_.emplace(static_cast<uint64_t>(id), std::move(request)).first;
  try {
    scheduler_.add_request(*added->second);
  } catch (...) {
    requests_.erase(added);
    throw;
  }
  return id;
}

std::span<const EngineCore::Update> EngineCore::step() {
  for (RequestId id : finished_) requests_.erase(static_cast<uint64_t>(id));
  finished_.clear();
  const ProfiledStepScope profiled(clock(), counters_.num_steps + 1);
  const SchedulerOutput& scheduled = schedule();
  if (scheduled.empty()) return {};
  try {
    return run_scheduled(scheduled);
  } catch (const device::DeviceError& error) {
    const std::span<const Update> updates = fail_scheduled(error.what());
    if (error.is_sticky()) throw;
    return updates;
  } catch (const std::exception& error) {
    return fail_scheduled(error.what());
  }
}

const SchedulerOutput& EngineCore::schedule() {
  const PhaseTimer timer(clock(), StepPhase::schedule);
  const SchedulerOutput& scheduled = scheduler_.schedule();
  last_scheduled_ = scheduled.scheduled;
  return scheduled;
}

std::span<const EngineCore::Update> EngineCore::run_scheduled(const SchedulerOutput& scheduled) {
  {
    const PhaseTimer timer(clock(), StepPhase::prepare);
    build_batch(scheduled);
  }
  const StepResult& result = runner_->execute(rows_, facts_);
  last_decision_ = result.decision;
  sample_on_device(scheduled, result);
  wait_for_device(result);
  const PhaseTimer timer(clock(), StepPhase::sample);
  sample(scheduled, result);
  const std::span<const Update> updates = scheduler_.update_from_output(
      std::span(sampled_).first(static_cast<size_t>(scheduled.num_sampling_requests)));
  count(scheduled, updates);
  forget_finished(updates);
  return updates;
}

std::span<const EngineCore::Update> EngineCore::fail_scheduled(std::string_view reason) {
  ++counters_.num_failed_steps;
  clock().profiler.fail_step();
  const std::span<const Update> updates = scheduler_.fail_scheduled(reason);
  forget_finished(updates);
  return updates;
}

void EngineCore::count(const SchedulerOutput& scheduled, std::span<const Update> updates) {
  ++counters_.num_steps;
  for (const ScheduledRequest& entry : scheduled.scheduled) {
    const int num_prompt_tokens_left =
        entry.request->num_prompt_tokens() - entry.num_computed_tokens;
    counters_.prompt_tokens +=
        static_cast<uint64_t>(std::clamp(num_prompt_tokens_left, 0, entry.num_scheduled_tokens));
  }
  for (const Update& update : updates) {
    if (update.new_token_id) ++counters_.generation_tokens;
  }
}

void EngineCore::build_batch(const SchedulerOutput& scheduled) {
  rows_.clear();
  for (const ScheduledRequest& entry : scheduled.scheduled) {
    rows_.push_back({.token_ids = entry.request->token_ids().subspan(
                         static_cast<size_t>(entry.num_computed_tokens),
                         static_cast<size_t>(entry.num_scheduled_tokens)),
                     .num_computed_tokens = entry.num_computed_tokens,
                     .block_ids = entry.request->block_ids(),
                     .samples = entry.samples,
                     .first_prompt_logit = entry.first_prompt_logit,
                     .num_prompt_logits = entry.num_prompt_logits});
  }
  facts_ = {.num_tokens = scheduled.total_num_scheduled_tokens,
            .num_reqs = scheduled.num_reqs(),
            .uniform = cudagraph::is_uniform_decode(scheduled.max_query_len,
                                                    options_.scheduler.decode_query_len,
                                                    scheduled.total_num_scheduled_tokens,
                                                    scheduled.num_reqs(),
                                                    scheduled.any_prefill),
            .num_logits = scheduled.num_logits};
}

void EngineCore::sample_on_device(const SchedulerOutput& scheduled, const StepResult& result) {
  is_on_device_.clear();
  device_sampling_.begin();
  int32_t row = 0;
  for (const ScheduledRequest& entry : scheduled.scheduled) {
    row += entry.num_prompt_logits;
    if (entry.samples) is_on_device_.push_back(device_sampling_.add(*entry.request, row++));
  }
  if (device_sampling_.empty()) return;
  const PhaseTimer timer(clock(), StepPhase::sample);
  device_sampling_.launch(result.logits);
}

void EngineCore::wait_for_device(const StepResult& result) {
  if (device_sampling_.empty()) {
    if (result.num_logits > 0) runner_->wait();
    return;
  }
  const PhaseTimer timer(clock(), StepPhase::wait);
  device_sampling_.wait();
}

void EngineCore::sample(const SchedulerOutput& scheduled, const StepResult& result) {
  int32_t row = 0;
  size_t num_sampled = 0;
  for (const ScheduledRequest& entry : scheduled.scheduled) {
    for (int i = 0; i < entry.num_prompt_logits; ++i) {
      const int position = entry.num_computed_tokens + entry.first_prompt_logit + i;
      add_prompt_logprobs(*entry.request, position, runner_->logits_row(result, row++));
    }
    if (!entry.samples) continue;
    sampling::SampledToken& sampled = sampled_[num_sampled];
    if (is_on_device_[num_sampled++]) {
      device_sampling_.take(sampled);
      ++counters_.tokens_sampled_on_device;
      ++row;
    } else {
      sample_one(*entry.request, runner_->logits_row(result, row++), sampled);
    }
  }
}

void EngineCore::sample_one(const Request& request,
                            std::span<const float> logits,
                            sampling::SampledToken& sampled) {
  sampling::SamplingInput input = request.sampling_input(logits);
  structured_output::TokenConstraint* constraint = request.constraint();
  if (constraint == nullptr) return sampler_.sample(input, sampled);
  input.allowed_mask = constraint->allowed_tokens();
  sampler_.sample(input, sampled);
  if (sampled.status != sampling::SamplingStatus::ok) return;
  if (!constraint->accept(sampled.token_id)) {
    throw Error(fmt::format("the constraint on the answer allows token {} and refuses it", sampled.token_id));
  }
  // An end-of-text token ends the request by itself, and adds no text.
  const std::vector<int32_t>& eos = options_.scheduler.eos_token_ids;
  const bool is_end = !request.params().ignore_eos &&
                      std::find(eos.begin(), eos.end(), sampled.token_id) != eos.end();
  sampled.ends_answer = !is_end && constraint->is_complete();
}

void EngineCore::add_prompt_logprobs(Request& request,
                                     int position,
                                     std::span<const float> logits) {
  const int32_t next = request.prompt_token_ids()[static_cast<size_t>(position) + 1];
  request.add_prompt_logprobs(
      sampling::position_logprobs(logits, next, *request.params().prompt_logprobs));
}

void EngineCore::forget_finished(std::span<const Update> updates) {
  for (const Update& update : updates) {
    if (update.finished) finished_.push_back(update.request->id());
  }
}

std::optional<EngineCore::Update> EngineCore::abort_request(RequestId id) {
  const auto found = requests_.find(static_cast<uint64_t>(id));
  if (found == requests_.end()) return std::nullopt;
  if (scheduler_.abort_request(*found->second) != AbortResult::released) return std::nullopt;
  finished_.push_back(id);
  return Update{.request = found->second.get(), .finished = true};
}

void EngineCore::finish_request(RequestId id, const std::string& stop_string) {
  const auto found = requests_.find(static_cast<uint64_t>(id));
  if (found == requests_.end()) return;
  const AbortResult result = scheduler_.finish_request(
      *found->second, RequestStatus::finished_stopped, StopReason(stop_string));
  if (result == AbortResult::released) finished_.push_back(id);
}

}  // namespace reprise::engine
