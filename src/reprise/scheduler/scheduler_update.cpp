#include <fmt/format.h>

#include <algorithm>
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
  REPRISE_ASSERT(sampled.size() == static_cast<size_t>(step.num_sampled_rows),
                 "{} sampled tokens for {} sampled rows",
                 sampled.size(),
                 step.num_sampled_rows);
  for (const ScheduledRequest& entry : step.scheduled) {
    const auto num_rows = static_cast<size_t>(entry.num_sampled_rows());
    const std::span<const sampling::SampledToken> rows = sampled.first(num_rows);
    sampled = sampled.subspan(num_rows);
    // The request ended while this step ran, so its result is dropped.
    const bool is_dropped = entry.request->is_finished();
    if (!is_dropped) apply_results(entry, rows);
    const bool is_postponed =
        !rows.empty() && rows.front().status == sampling::SamplingStatus::postponed;
    settle_snapshot(
        entry,
        !is_dropped && !is_postponed && entry.request->status_ != RequestStatus::finished_error);
  }
  end_step();
  return updates_;
}

void Scheduler::apply_results(const ScheduledRequest& entry,
                              std::span<const sampling::SampledToken> sampled) {
  Request& request = *entry.request;
  if (!sampled.empty() && sampled.front().status == sampling::SamplingStatus::postponed) {
    postpone(entry);
    return;
  }
  const size_t num_updates_before = updates_.size();
  const int num_new_tokens = append_tokens(entry, sampled);
  take_back_drafts(entry, num_new_tokens);
  if (request.status_ != RequestStatus::finished_error) {
    publish_blocks(request,
                   entry.num_drafts > 0 ? request.num_computed_tokens_
                                        : entry.num_computed_tokens + entry.num_scheduled_tokens);
  }
  if (!request.is_finished()) return;
  if (updates_.size() == num_updates_before) updates_.push_back({.request = &request});
  updates_.back().finished = true;
}

/// Appends the sampled tokens up to the first that gives no token or ends the request. Adds an
/// update for each, and returns their number.
int Scheduler::append_tokens(const ScheduledRequest& entry,
                             std::span<const sampling::SampledToken> sampled) {
  Request& request = *entry.request;
  int num_new_tokens = 0;
  int num_sampled = 0;
  for (const sampling::SampledToken& row : sampled) {
    using sampling::SamplingStatus;
    if (row.status == SamplingStatus::not_reached || row.status == SamplingStatus::postponed) break;
    num_sampled += static_cast<int>(row.status == SamplingStatus::ok);
    if (request.is_finished()) continue;  // a token before it has ended the request
    const int num_tokens_before = request.num_tokens();
    append_token(request, row);
    if (request.num_tokens() == num_tokens_before) continue;
    ++num_new_tokens;
    updates_.push_back(
        {.request = &request, .new_token_id = request.token_ids().back(), .sampled = &row});
  }
  if (entry.num_drafts > 0) {
    const int num_accepted = std::max(0, num_sampled - 1);
    speculation_stats_.observe(entry.num_drafts, num_accepted);
    request.draft_gate_.observe(entry.num_drafts, num_accepted);
    recent_acceptance_.observe(entry.num_drafts, num_accepted);
  }
  return num_new_tokens;
}

std::span<const RequestUpdate> Scheduler::fail_scheduled(std::string_view reason) {
  updates_.clear();
  if (num_in_flight_ == 0) return updates_;
  for (const ScheduledRequest& entry : oldest_in_flight().scheduled) {
    settle_snapshot(entry, false);
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
    if (entry.first_imported_token >= 0) entry.request->options_.kv_image.reset();
    if (entry.request->is_finished() && !entry.request->is_in_flight()) release(*entry.request);
  }
  oldest_ = (oldest_ + 1) % kMaxStepsInFlight;
  --num_in_flight_;
}

/// Publishes the blocks that a step has filled, so that later requests find them.
void Scheduler::publish_blocks(Request& request, int num_computed_tokens) {
  if (!request.options_.shares_prefixes) return;
  request.block_hashes_.extend(request.token_ids().first(static_cast<size_t>(num_computed_tokens)));
  kv_cache::BlockSource source{.token_ids = request.token_ids(),
                               .cache_salt = request.cache_salt(),
                               .lora_name = request.options_.lora_name};
  if (request.lora_id() != 0) source.lora_id = request.lora_id();
  kv_cache_manager_->publish(
      request.block_table_, request.block_hashes_, num_computed_tokens, source);
}

/// Removes the placeholder of a token that was not sampled, and the drafts. This token is sampled
/// from the logits of the last known token, so the next step computes the last known token once
/// more.
void Scheduler::postpone(const ScheduledRequest& entry) {
  Request& request = *entry.request;
  drop_placeholders(request, 1 + entry.num_drafts);
  request.num_computed_tokens_ -= 1 + entry.num_drafts;
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
  kv_cache_manager_->unpublish(request.block_table_, request.block_hashes_);
}

void Scheduler::release(Request& request) {
  if (drafter_ != nullptr) {
    drafter_->end_request({.request_id = static_cast<uint64_t>(request.id_),
                           .cache_salt = request.cache_salt(),
                           .output_token_ids = request.output_token_ids()});
  }
  kv_cache_manager_->free(request.block_table_);
  request.scheduler_ = nullptr;
  finished_since_schedule_.push_back(request.id_);
}

}  // namespace reprise::engine
