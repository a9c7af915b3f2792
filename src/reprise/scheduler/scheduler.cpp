#include "reprise/scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/scheduler/common_prefix.h"

namespace reprise::scheduler {
namespace {

/// Memory is reserved for this many finished requests of a step. More of them (a mass abort) make
/// the vector grow.
constexpr size_t kUsualFinished = 256;
/// A token id that every model has. A step computes this token when the step before it sampled
/// none.
constexpr int32_t kPlaceholder = 0;
/// Steps between two searches for requests that have waited too long; a search is linear in the
/// number of waiting requests.
constexpr uint64_t kPromotionInterval = 16;

SchedulerConfig checked(SchedulerConfig config, const kv_cache::KvCacheManager& cache) {
  check_config(config, effective_max_model_len(config, cache));
  return config;
}

/// Removes the placeholder of a token that was not sampled, and the drafts. This token is sampled
/// from the logits of the last known token, so the next step computes the last known token once
/// more.
void postpone(const StepEntry& entry) {
  RequestState& state = entry.request->state();
  state.drop_placeholders(1 + entry.num_drafts);
  state.num_computed_tokens -= 1 + entry.num_drafts;
  state.is_postponed = true;
}

/// The parameters and the constraint of the request together allow no next token.
void end_without_token(Request& request, const sampling::SampledToken& sampled) {
  RequestState& state = request.state();
  if (sampled.ends_answer) {
    state.status = RequestStatus::finished_stopped;
    return;
  }
  state.status = RequestStatus::finished_length;
  state.stop_reason = std::string(kNoAllowedToken);
}

}  // namespace

Scheduler::Scheduler(SchedulerConfig config,
                     kv_cache::KvCacheManager& kv_cache_manager,
                     speculative::Drafter* drafter)
    : config_(checked(std::move(config), kv_cache_manager)),
      kv_cache_manager_(&kv_cache_manager),
      checks_(config_, kv_cache_manager),
      stop_checker_(config_.eos_token_ids),
      waiting_(config_),
      adapters_(std::max(config_.max_loras, 0)),
      prefixes_(kv_cache_manager, config_.recomputes_last_cached_block),
      snapshots_(
          kv_cache_manager, config_.prefix_cache_retention_interval, config_.state_chunk_tokens),
      chunks_(config_.state_chunk_tokens),
      drafts_(config_, kv_cache_manager, drafter) {
  const auto max_num_seqs = static_cast<size_t>(config_.max_num_seqs);
  running_.reserve(max_num_seqs);
  updates_.reserve(max_num_seqs * static_cast<size_t>(config_.decode_query_len));
  for (SchedulerOutput& output : outputs_) {
    output.scheduled.reserve(max_num_seqs);
    output.preempted.reserve(max_num_seqs);
    output.finished_request_ids.reserve(kUsualFinished);
  }
  finished_since_schedule_.reserve(kUsualFinished);
}

void Scheduler::add_request(Request& request) {
  RequestState& state = request.state();
  REPRISE_ASSERT(state.scheduler == nullptr && state.status == RequestStatus::waiting,
                 "request {} was added before",
                 static_cast<uint64_t>(request.id()));
  checks_.check(request.prompt_token_ids(), request.params(), request.options());
  state.max_total_tokens = find_max_total_tokens(request);
  state.token_ids.reserve(static_cast<size_t>(state.max_total_tokens));
  request.reserve_prompt_logprobs();
  kv_cache_manager_->reserve(state.cache.block_table,
                             state.max_total_tokens,
                             static_cast<int>(request.encoder_token_ids().size()));
  prefixes_.begin(request);
  state.all_stop_token_ids = request.params().stop_token_ids;
  for (const int32_t id : config_.eos_token_ids) {
    // A configuration may name special tokens for which the model has no logits.
    if (id >= 0 && id < config_.vocab_size) state.all_stop_token_ids.push_back(id);
  }
  state.scheduler = this;
  waiting_.add(request, num_schedules_);
  drafts_.open_gate(request);
}

/// The value of Request::max_total_tokens().
int Scheduler::find_max_total_tokens(const Request& request) const {
  int64_t most = max_model_len();
  if (const auto& max_tokens = request.params().max_tokens) {
    most = std::min(most, int64_t{request.num_prompt_tokens()} + *max_tokens);
  }
  // The blocks that hold the encoder's text cannot be used for the answer.
  const auto num_encoder_tokens = static_cast<int>(request.encoder_token_ids().size());
  const int64_t num_blocks =
      kv_cache_manager_->num_blocks() - 1 - kv_cache_manager_->blocks_for(num_encoder_tokens);
  return static_cast<int>(std::min(most, num_blocks * kv_cache_manager_->block_size() + 1));
}

AbortResult Scheduler::abort_request(Request& request) {
  return finish_request(request, RequestStatus::finished_aborted);
}

AbortResult Scheduler::finish_request(Request& request,
                                      RequestStatus status,
                                      StopReason stop_reason) {
  REPRISE_ASSERT(scheduler::is_finished(status), "{} ends no request", to_string(status));
  if (request.is_finished()) {
    return request.is_in_flight() ? AbortResult::released_after_step
                                  : AbortResult::already_finished;
  }
  REPRISE_ASSERT(request.state().scheduler == this,
                 "request {} is not known to this scheduler",
                 static_cast<uint64_t>(request.id()));
  const RequestStatus before = std::exchange(request.state().status, status);
  request.state().stop_reason = std::move(stop_reason);
  if (before == RequestStatus::running) {
    std::erase(running_, &request);
  } else {
    waiting_.remove(request);
  }
  if (request.is_in_flight()) return AbortResult::released_after_step;
  release(request);
  return AbortResult::released;
}

const SchedulerOutput& Scheduler::schedule() {
  REPRISE_ASSERT(can_schedule(), "schedule() before update_from_output() of the previous step");
  output_ = &outputs_[(oldest_ + num_in_flight_) % kMaxStepsInFlight];
  output_->scheduled.clear();
  output_->preempted.clear();
  output_->finished_request_ids.clear();
  std::swap(output_->finished_request_ids, finished_since_schedule_);

  ++num_schedules_;
  if (config_.policy == SchedulingPolicy::priority && num_schedules_ % kPromotionInterval == 0) {
    waiting_.promote(num_schedules_);
  }
  drafts_.propose(running_);
  int token_budget = config_.max_num_batched_tokens;
  prompt_logits_.begin_step(config_.max_prompt_logits);
  const bool has_blocks = schedule_running(token_budget);
  // If a running request lost its blocks in this step or waits for blocks, no waiting request is
  // admitted: the running request is served first when blocks are free again.
  if (has_blocks && output_->preempted.empty()) schedule_waiting(token_budget);
  finish_batch();
  return *output_;
}

/// Returns false when a request has to wait for blocks; all requests that rank after it then wait
/// too.
bool Scheduler::schedule_running(int& token_budget) {
  for (size_t i = 0; i < running_.size() && token_budget > 0; ++i) {
    Request& request = *running_[i];
    int num_new_tokens = tokens_to_schedule(request, token_budget);
    // No token can be scheduled: earlier requests have taken all rows of logits of this step, or a
    // step in flight samples this request's last token.
    if (num_new_tokens == 0) continue;
    const auto num_later = static_cast<int>(running_.size() - i - 1);
    const int num_drafts = drafts_.take(request, token_budget, num_later);
    num_new_tokens += num_drafts;
    while (
        kv_cache_manager_->allocate_slots(request.state().cache.block_table,
                                          request.state().num_computed_tokens + num_new_tokens) ==
        kv_cache::SlotResult::no_blocks) {
      const Request& victim = *running_.back();
      const bool is_own_victim = &victim == &request;
      // The request has to wait. Either a step in flight still uses the victim's blocks, or ended
      // requests have blocks that become free when that step is done.
      if (victim.is_in_flight() || (is_own_victim && num_in_flight_ > 0)) return false;
      REPRISE_ASSERT(running_.size() > 1, "one request does not fit into the empty KV cache");
      preempt_last_running();
      if (is_own_victim) return false;
    }
    append_to_batch(request, num_new_tokens, num_drafts);
    token_budget -= num_new_tokens;
  }
  return true;
}

void Scheduler::schedule_waiting(int& token_budget) {
  adapters_.clear();
  for (const Request* request : running_) adapters_.add(request->lora_id());
  Request* next = waiting_.front();
  while (next != nullptr && token_budget > 0 &&
         running_.size() < static_cast<size_t>(config_.max_num_seqs)) {
    Request& request = *next;
    next = RequestQueue::next(request);
    // Another request may be scheduled first. The next step gives out its rows by rank again, so
    // this request waits only for other requests that want such rows.
    if (prompt_logits_.must_wait(request)) continue;
    if (!adapters_.has_room_for(request.lora_id())) {
      const uint64_t waited = WaitingLine::num_steps_waited(request, num_schedules_);
      if (std::cmp_less(waited, config_.max_lora_wait_steps)) continue;
      return;
    }
    if (!admit(request, token_budget)) return;
    const int num_new_tokens = tokens_to_schedule(request, token_budget);
    start_running(request);
    adapters_.add(request.lora_id());
    append_to_batch(request, num_new_tokens);
    token_budget -= num_new_tokens;
  }
}

/// Gives the request its cached prefix and the blocks of its first chunk. Returns false and leaves
/// the request unchanged when it does not fit.
bool Scheduler::admit(Request& request, int token_budget) {
  const PrefixRule::CachedPrefix prefix = prefixes_.find(request);
  RequestState& state = request.state();
  const int num_found_tokens = prefix.num_blocks * kv_cache_manager_->block_size();
  const int num_cached_tokens =
      std::max(num_found_tokens, PrefixRule::num_tokens_to_import(request));
  if (!config_.enable_chunked_prefill && request.num_tokens() - num_cached_tokens > token_budget) {
    return false;
  }
  if (config_.scheduler_reserve_full_isl &&
      kv_cache::KvCacheManager::num_encoder_blocks(state.cache.block_table) +
              kv_cache_manager_->blocks_for(request.num_tokens()) - prefix.num_blocks >
          kv_cache_manager_->num_free_blocks() - prefix.num_free_blocks) {
    return false;
  }
  state.num_computed_tokens = num_cached_tokens;
  state.cache.shared_prefix_boundary =
      prefix.num_blocks_without_states * kv_cache_manager_->block_size();
  const int num_new_tokens = tokens_to_schedule(request, token_budget);
  if (num_new_tokens == 0 ||  // earlier requests have taken the step's rows of logits
      kv_cache_manager_->allocate_slots_after(state.cache.block_table,
                                              state.cache.block_hashes,
                                              prefix,
                                              num_cached_tokens + num_new_tokens) ==
          kv_cache::SlotResult::no_blocks) {
    state.num_computed_tokens = 0;
    return false;
  }
  state.cache.restored_state = prefix.snapshot;
  if (state.num_preemptions == 0) prefixes_.count(request, num_found_tokens);
  if (PrefixRule::num_tokens_to_import(request) > 0) {
    state.cache.first_imported_token = num_found_tokens;
    // If the whole prompt was computed by another engine, its last token makes a decode step.
    if (num_cached_tokens == request.num_tokens() - 1) {
      state.num_prefill_tokens = num_cached_tokens;
    }
  }
  return true;
}

int Scheduler::tokens_to_schedule(const Request& request, int token_budget) const {
  // The request got no token in its last step, but a later step was already scheduled as if it had.
  // Wait until that step is done.
  if (request.state().is_postponed && request.is_in_flight()) return 0;
  // The last token that the length limit allows is never computed: no token follows it.
  const auto num_known = static_cast<int>(request.token_ids_with_placeholders().size());
  const int num_left = std::min(num_known, request.state().max_total_tokens - 1) -
                       request.state().num_computed_tokens;
  int num_tokens = num_left;
  if (config_.long_prefill_token_threshold > 0) {
    num_tokens = std::min(num_tokens, config_.long_prefill_token_threshold);
  }
  num_tokens = snapshots_.limit(request, std::min(num_tokens, token_budget));
  return chunks_.limit(request, prompt_logits_.limit(request, num_tokens), num_left);
}

void Scheduler::append_to_batch(Request& request, int num_scheduled_tokens, int num_drafts) {
  RequestState& state = request.state();
  CacheState& cached = state.cache;
  // The blocks of the step's tokens are in the table, and add_request() has reserved the memory of
  // tokens and table, so the entry may keep views of both.
  const bool is_first = state.num_computed_tokens == 0;
  output_->scheduled.push_back(
      {.token_ids = request.token_ids_with_placeholders().subspan(
           static_cast<size_t>(state.num_computed_tokens),
           static_cast<size_t>(num_scheduled_tokens)),
       .num_computed_tokens = state.num_computed_tokens,
       .block_ids = request.block_ids(),
       .state_slot = request.state_slot(),
       .restored_state = std::exchange(cached.restored_state, kv_cache::kNullStateSlot),
       .encoder_token_ids = is_first ? request.encoder_token_ids() : std::span<const int32_t>(),
       .encoder_len = static_cast<int32_t>(request.encoder_token_ids().size()),
       .encoder_block_ids = request.encoder_block_ids(),
       .adapter = request.adapter(),
       .second_text_begin = request.second_text_begin(),
       .num_drafts = num_drafts,
       .request = &request,
       .is_in_prefill = request.is_in_prefill(),
       .first_imported_token = std::exchange(cached.first_imported_token, -1)});
  StepEntry& entry = output_->scheduled.back();
  snapshots_.schedule(request, entry);
  prompt_logits_.schedule(request, entry);
  ++state.num_steps_in_flight;
  state.num_computed_tokens += num_scheduled_tokens;
  entry.samples = std::cmp_equal(state.num_computed_tokens, state.token_ids.size());
  if (!entry.samples) return;
  state.add_placeholders({&kPlaceholder, 1});
  // The drafts of this step come before the new placeholder.
  entry.placeholders = std::span(state.token_ids).last(1 + static_cast<size_t>(num_drafts));
}

void Scheduler::finish_batch() {
  if (config_.pad_drafts) pad_drafts(*output_, config_);
  sort_batch(output_->scheduled, config_.decode_query_len);
  output_->total_num_scheduled_tokens = 0;
  output_->num_padding_tokens = 0;
  output_->num_sampling_requests = 0;
  output_->num_sampled_rows = 0;
  output_->num_logits = 0;
  output_->max_query_len = 0;
  output_->any_prefill = false;
  adapters_.clear();
  for (const StepEntry& entry : output_->scheduled) {
    adapters_.add(entry.request->lora_id());
    output_->total_num_scheduled_tokens += entry.num_tokens();
    output_->num_padding_tokens += entry.num_padding_tokens;
    output_->num_sampling_requests += static_cast<int>(entry.samples);
    output_->num_sampled_rows += entry.num_sampled_rows();
    output_->num_logits += entry.num_logits();
    output_->max_query_len = std::max(output_->max_query_len, entry.query_len());
    output_->any_prefill |= entry.is_in_prefill;
  }
  output_->num_active_loras = adapters_.size();
  const bool looks_for_prefix =
      config_.least_common_prefix_reqs > 0 &&
      std::cmp_greater_equal(output_->scheduled.size(), config_.least_common_prefix_reqs);
  output_->common_prefix_len =
      looks_for_prefix ? find_common_prefix(output_->scheduled, *kv_cache_manager_) : 0;
  if (output_->empty()) {
    --num_schedules_;  // an empty step does not count as waiting time
  } else {
    ++num_in_flight_;
  }
}

void Scheduler::start_running(Request& request) {
  waiting_.take(request, num_schedules_);
  request.state().status = RequestStatus::running;
  const auto place = std::upper_bound(
      running_.begin(), running_.end(), &request, [this](const Request* a, const Request* b) {
        return waiting_.ranks_before(*a, *b);
      });
  running_.insert(place, &request);
}

/// Preempts the victim, the last running request: its blocks are freed and its tokens are computed
/// again later. The victim is never in the batch already, because requests join the batch in the
/// order of their rank, and the victim is the request that needs a block or one that ranks after
/// it.
void Scheduler::preempt_last_running() {
  Request& victim = *running_.back();
  RequestState& state = victim.state();
  REPRISE_ASSERT(!victim.is_in_flight(),
                 "request {} is preempted while a step with it is in flight",
                 static_cast<uint64_t>(victim.id()));
  running_.pop_back();
  kv_cache_manager_->free(state.cache.block_table);
  state.num_computed_tokens = 0;
  state.num_prefill_tokens = victim.num_tokens();
  state.status = RequestStatus::preempted;
  ++state.num_preemptions;
  ++num_preemptions_;
  waiting_.add_again(victim, num_schedules_);
  output_->preempted.push_back(&victim);
}

std::span<const RequestUpdate> Scheduler::update_from_output(
    std::span<const sampling::SampledToken> sampled) {
  REPRISE_ASSERT(num_in_flight_ > 0 || sampled.empty(),
                 "results were given for a step that was not scheduled");
  updates_.clear();
  if (num_in_flight_ == 0) return updates_;
  const SchedulerOutput& step = oldest_in_flight();
  REPRISE_ASSERT(sampled.size() == static_cast<size_t>(step.num_sampled_rows),
                 "{} sampled tokens for {} sampled rows",
                 sampled.size(),
                 step.num_sampled_rows);
  for (const StepEntry& entry : step.scheduled) {
    const auto num_rows = static_cast<size_t>(entry.num_sampled_rows());
    const std::span<const sampling::SampledToken> rows = sampled.first(num_rows);
    sampled = sampled.subspan(num_rows);
    // The request ended while this step ran, so its result is dropped.
    const bool is_dropped = entry.request->is_finished();
    if (!is_dropped) apply_results(entry, rows);
    const bool is_postponed =
        !rows.empty() && rows.front().status == sampling::SamplingStatus::postponed;
    snapshots_.settle(entry,
                      !is_dropped && !is_postponed &&
                          entry.request->state().status != RequestStatus::finished_error);
  }
  end_step();
  return updates_;
}

void Scheduler::apply_results(const StepEntry& entry,
                              std::span<const sampling::SampledToken> sampled) {
  Request& request = *entry.request;
  if (!sampled.empty() && sampled.front().status == sampling::SamplingStatus::postponed) {
    postpone(entry);
    return;
  }
  const size_t num_updates_before = updates_.size();
  const int num_new_tokens = append_tokens(entry, sampled);
  take_back_drafts(entry, num_new_tokens);
  if (entry.num_drafts > 0) {
    kv_cache_manager_->advance_states(request.state().cache.block_table,
                                      std::max(num_new_tokens - 1, 0));
  }
  if (request.state().status != RequestStatus::finished_error) {
    prefixes_.publish(request,
                      entry.num_drafts > 0 ? request.state().num_computed_tokens : entry.end());
  }
  if (!request.is_finished()) return;
  if (updates_.size() == num_updates_before) updates_.push_back({.request = &request});
  updates_.back().finished = true;
}

/// Appends the sampled tokens, up to the first sample that gives no token or ends the request. Adds
/// an update for each, and returns their number.
int Scheduler::append_tokens(const StepEntry& entry,
                             std::span<const sampling::SampledToken> sampled) {
  Request& request = *entry.request;
  int num_new_tokens = 0;
  int num_sampled = 0;
  for (const sampling::SampledToken& row : sampled) {
    using sampling::SamplingStatus;
    if (row.status == SamplingStatus::not_reached || row.status == SamplingStatus::postponed) break;
    num_sampled += static_cast<int>(row.status == SamplingStatus::ok);
    if (request.is_finished()) continue;  // an earlier token of this step has ended the request
    const int num_tokens_before = request.num_tokens();
    append_token(request, row);
    if (request.num_tokens() == num_tokens_before) continue;
    ++num_new_tokens;
    updates_.push_back(
        {.request = &request, .new_token_id = request.token_ids().back(), .sampled = &row});
  }
  if (entry.num_drafts > 0) {
    const int num_accepted = std::max(0, num_sampled - 1);
    drafts_.observe(entry, num_accepted);
  }
  return num_new_tokens;
}

std::span<const RequestUpdate> Scheduler::fail_scheduled(std::string_view reason) {
  updates_.clear();
  if (num_in_flight_ == 0) return updates_;
  for (const StepEntry& entry : oldest_in_flight().scheduled) {
    snapshots_.settle(entry, false);
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
  for (const StepEntry& entry : oldest_in_flight().scheduled) {
    --entry.request->state().num_steps_in_flight;
    if (entry.first_imported_token >= 0) entry.request->drop_kv_image();
    if (entry.request->is_finished() && !entry.request->is_in_flight()) release(*entry.request);
  }
  oldest_ = (oldest_ + 1) % kMaxStepsInFlight;
  --num_in_flight_;
}

void Scheduler::append_token(Request& request, const sampling::SampledToken& sampled) {
  using sampling::SamplingStatus;
  RequestState& state = request.state();
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
  int32_t& placeholder = state.token_ids[static_cast<size_t>(request.num_tokens())];
  // If the token is already there, another thread may be reading it for the next step, so do not
  // write.
  if (placeholder != sampled.token_id) placeholder = sampled.token_id;
  --state.num_placeholders;
  state.is_postponed = false;
  if (const std::optional<Stop> stop = stop_checker_.check(request)) {
    state.status = stop->status;
    if (stop->stop_token_id) state.stop_reason = *stop->stop_token_id;
  }
  if (sampled.ends_answer) state.status = RequestStatus::finished_stopped;
}

void Scheduler::fail(Request& request, std::string_view message, ErrorKind kind) {
  RequestState& state = request.state();
  state.status = RequestStatus::finished_error;
  state.error_kind = kind;
  state.error = fmt::format("after {} tokens: {}", request.num_tokens(), message);
  // The blocks may hold wrong values if the step failed or if its logits were not numbers.
  kv_cache_manager_->unpublish(state.cache.block_table, state.cache.block_hashes);
}

void Scheduler::release(Request& request) {
  drafts_.end_request(request);
  kv_cache_manager_->free(request.state().cache.block_table);
  request.state().scheduler = nullptr;
  finished_since_schedule_.push_back(request.id());
}

}  // namespace reprise::scheduler
