#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/assert.h"
#include "reprise/scheduler/scheduler.h"

// The part of the scheduler that applies the results of a step.
namespace reprise::engine {

std::span<const RequestUpdate> Scheduler::update_from_output(
    std::span<const sampling::SampledToken> sampled) {
  REPRISE_ASSERT(num_in_flight_ > 0 || sampled.empty(), "results of a step that was not scheduled");
  updates_.clear();
  if (num_in_flight_ == 0) return updates_;
  const SchedulerOutput& step = oldest_in_flight();
  REPRISE_ASSERT(sampled.size() == static_cast<size_t>(step.num_sampling_requests),
                 "{} sampled tokens for {} sampling requests",
                 sampled.size(),
                 step.num_sampling_requests);
  size_t next_sample = 0;
  for (const ScheduledRequest& entry : step.scheduled) {
    const sampling::SampledToken* sample = entry.samples ? &sampled[next_sample++] : nullptr;
    // The request ended while this step ran, so its result is dropped.
    if (entry.request->is_finished()) continue;
    const RequestUpdate update = apply_results(entry, sample);
    if (update.new_token_id || update.finished) updates_.push_back(update);
  }
  end_step();
  return updates_;
}

RequestUpdate Scheduler::apply_results(const ScheduledRequest& entry,
                                       const sampling::SampledToken* sampled) {
  Request& request = *entry.request;
  RequestUpdate update{.request = &request};
  const int num_tokens_before = request.num_tokens();
  if (sampled != nullptr && sampled->status == sampling::SamplingStatus::postponed) {
    postpone(request);
    return update;
  }
  if (sampled != nullptr) append_token(request, *sampled);
  if (request.status_ != RequestStatus::finished_error) {
    publish_blocks(request, entry.num_computed_tokens + entry.num_scheduled_tokens);
  }
  if (request.num_tokens() > num_tokens_before) {
    update.new_token_id = request.token_ids().back();
    update.sampled = sampled;
  }
  update.finished = request.is_finished();
  return update;
}

std::span<const RequestUpdate> Scheduler::fail_scheduled(std::string_view reason) {
  updates_.clear();
  if (num_in_flight_ == 0) return updates_;
  for (const ScheduledRequest& entry : oldest_in_flight().scheduled) {
    if (entry.request->is_finished()) continue;
    fail(*entry.request, reason);
    updates_.push_back({.request = entry.request, .finished = true});
  }
  end_step();
  return updates_;
}

void Scheduler::end_step() {
  if (!updates_.empty()) {
    std::erase_if(running_, [](const Request* request) { return request->is_finished(); });
  }
  for (const ScheduledRequest& entry : oldest_in_flight().scheduled) {
    --entry.request->num_steps_in_flight_;
    if (entry.request->is_finished() && !entry.request->is_in_flight()) release(*entry.request);
  }
  oldest_ = (oldest_ + 1) % kMaxStepsInFlight;
  --num_in_flight_;
}

/// Publishes the blocks that a step has filled, so that later requests find them.
void Scheduler::publish_blocks(Request& request, int num_computed_tokens) {
  request.block_hashes_.extend(request.token_ids().first(static_cast<size_t>(num_computed_tokens)));
  kv_cache_manager_->publish(request.block_table_, request.block_hashes_, num_computed_tokens);
}

/// Removes the placeholder of a token that was not sampled. This token is sampled from the logits
/// of the last known token, so the next step computes the last known token once more.
void Scheduler::postpone(Request& request) {
  request.token_ids_.pop_back();
  --request.num_placeholders_;
  --request.num_computed_tokens_;
  request.is_postponed_ = true;
}

/// The parameters and the constraint of the request together allow no next token.
void Scheduler::end_without_token(Request& request, const sampling::SampledToken& sampled) {
  if (sampled.ends_answer) {
    request.status_ = RequestStatus::finished_stopped;
    return;
  }
  request.status_ = RequestStatus::finished_length;
  request.stop_reason_ = std::string(kNoAllowedToken);
}

void Scheduler::append_token(Request& request, const sampling::SampledToken& sampled) {
  using sampling::SamplingStatus;
  if (sampled.status == SamplingStatus::no_allowed_token) {
    return end_without_token(request, sampled);
  }
  if (sampled.status == SamplingStatus::refused) {
    return fail(request, sampled.problem, ErrorKind::request);
  }
  if (sampled.status != SamplingStatus::ok) {
    return fail(request, sampled.problem.empty() ? to_string(sampled.status) : sampled.problem);
  }
  if (sampled.token_id < 0 || sampled.token_id >= config_.vocab_size) {
    fail(request,
         fmt::format("sampled token {} is outside the vocabulary of {}",
                     sampled.token_id,
                     config_.vocab_size));
    return;
  }
  int32_t& placeholder = request.token_ids_[static_cast<size_t>(request.num_tokens())];
  // When the token is already there, another thread may be reading it for the next step: do not
  // write.
  if (placeholder != sampled.token_id) placeholder = sampled.token_id;
  --request.num_placeholders_;
  request.is_postponed_ = false;
  if (const std::optional<Stop> stop = stop_checker_.check(request)) {
    request.status_ = stop->status;
    if (stop->stop_token_id) request.stop_reason_ = *stop->stop_token_id;
  }
  if (sampled.ends_answer) request.status_ = RequestStatus::finished_stopped;
}

void Scheduler::fail(Request& request, std::string_view message, ErrorKind kind) {
  request.status_ = RequestStatus::finished_error;
  request.error_kind_ = kind;
  request.error_ = fmt::format("after {} tokens: {}", request.num_tokens(), message);
  // The blocks may hold anything if the step failed or if its logits were not numbers.
  kv_cache_manager_->unpublish(request.block_table_);
}

void Scheduler::release(Request& request) {
  kv_cache_manager_->free(request.block_table_);
  request.scheduler_ = nullptr;
  finished_since_schedule_.push_back(request.id_);
}

}  // namespace reprise::engine
