#include "reprise/scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/scheduler/allowed_tokens.h"

namespace reprise::engine {
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

int effective_max_model_len(const SchedulerConfig& config, const kv_cache::KvCacheManager& cache) {
  return static_cast<int>(std::min<int64_t>(config.max_model_len, cache.capacity_tokens() + 1));
}

}  // namespace

Scheduler::Scheduler(SchedulerConfig config,
                     kv_cache::KvCacheManager& kv_cache_manager,
                     speculative::Drafter* drafter)
    : config_(std::move(config)),
      kv_cache_manager_(&kv_cache_manager),
      drafter_(drafter),
      stop_checker_(config_.eos_token_ids),
      max_model_len_(effective_max_model_len(config_, kv_cache_manager)),
      adapters_(std::max(config_.max_loras, 0)) {
  check_config(config_, max_model_len_);
  const auto max_num_seqs = static_cast<size_t>(config_.max_num_seqs);
  running_.reserve(max_num_seqs);
  updates_.reserve(max_num_seqs * static_cast<size_t>(config_.decode_query_len));
  reserve_drafts();
  for (SchedulerOutput& output : outputs_) {
    output.scheduled.reserve(max_num_seqs);
    output.preempted.reserve(max_num_seqs);
    output.finished_request_ids.reserve(kUsualFinished);
  }
  finished_since_schedule_.reserve(kUsualFinished);
}

void Scheduler::check_admissible(std::span<const int32_t> prompt_token_ids,
                                 const sampling::SamplingParams& params,
                                 const RequestOptions& options) const {
  if (!config_.decoder_prompt.empty()) {
    const bool has_text = !options.encoder_token_ids.empty();
    check_encoder_text(has_text ? options.encoder_token_ids : prompt_token_ids, params);
    prompt_token_ids = config_.decoder_prompt;
  }
  const size_t num_prompt_tokens = prompt_token_ids.size();
  if (num_prompt_tokens == 0) {
    throw InvalidArgument("prompt is empty, expected at least one token");
  }
  if (std::cmp_greater(num_prompt_tokens, kv_cache_manager_->capacity_tokens())) {
    throw InvalidArgument(fmt::format(
        "prompt has {} tokens, but the KV cache holds {} ({} blocks of {}); shorten the prompt or "
        "give the cache more memory",
        num_prompt_tokens,
        kv_cache_manager_->capacity_tokens(),
        kv_cache_manager_->num_blocks() - 1,
        kv_cache_manager_->block_size()));
  }
  if (std::cmp_greater_equal(num_prompt_tokens, max_model_len_)) {
    throw InvalidArgument(fmt::format(
        "prompt has {} tokens, but max_model_len is {} for prompt and output together; shorten the "
        "prompt to at most {} tokens",
        num_prompt_tokens,
        max_model_len_,
        max_model_len_ - 1));
  }
  check_token_ids(prompt_token_ids);
  sampling::validate(params, config_.vocab_size, config_.max_logprobs);
  check_some_token_is_allowed(params, config_.eos_token_ids);
  if (options.priority != 0 && config_.policy != SchedulingPolicy::priority) {
    throw InvalidArgument(fmt::format(
        "priority is {}, but this engine serves first come, first served; start it with "
        "--scheduling-policy priority or leave the priority out",
        options.priority));
  }
  if (options.lora_id != 0 && config_.max_loras == 0) {
    throw InvalidArgument(
        "the request names an adapter, but this engine has none; start it with --enable-lora");
  }
  if (options.cache_salt.size() > kMaxCacheSaltBytes) {
    throw InvalidArgument(fmt::format("cache_salt has {} bytes, expected at most {}",
                                      options.cache_salt.size(),
                                      kMaxCacheSaltBytes));
  }
}

void Scheduler::add_request(Request& request) {
  REPRISE_ASSERT(request.scheduler_ == nullptr && request.status_ == RequestStatus::waiting,
                 "request {} was added before",
                 static_cast<uint64_t>(request.id_));
  check_admissible(request.prompt_token_ids(), request.params(), request.options_);
  const sampling::SamplingParams& params = request.params_;
  request.max_total_tokens_ = max_model_len_;
  if (params.max_tokens) {
    request.max_total_tokens_ = static_cast<int>(std::min<int64_t>(
        max_model_len_, int64_t{request.num_prompt_tokens_} + *params.max_tokens));
  }
  request.token_ids_.reserve(static_cast<size_t>(request.max_total_tokens_));
  request.prompt_logprobs_.reserve(static_cast<size_t>(request.num_prompt_logits()));
  const auto num_encoder_tokens = static_cast<int>(request.encoder_token_ids().size());
  // The blocks of the encoder's text are not there for the answer.
  const int64_t num_blocks =
      kv_cache_manager_->num_blocks() - 1 - kv_cache_manager_->blocks_for(num_encoder_tokens);
  request.max_total_tokens_ = static_cast<int>(std::min<int64_t>(
      request.max_total_tokens_, num_blocks * kv_cache_manager_->block_size() + 1));
  kv_cache_manager_->reserve(request.block_table_, request.max_total_tokens_, num_encoder_tokens);
  if (request.options_.shares_prefixes) {
    kv_cache::PrefixKey prefix{.cache_salt = request.cache_salt()};
    if (request.lora_id() != 0) prefix.lora_id = request.lora_id();
    request.block_hashes_ = kv_cache_manager_->make_chain(prefix);
  }
  request.block_hashes_.reserve(request.max_total_tokens_);
  request.block_hashes_.extend(request.token_ids());
  request.all_stop_token_ids_ = params.stop_token_ids;
  for (const int32_t id : config_.eos_token_ids) {
    // A configuration may name special tokens for which the model has no logits.
    if (id >= 0 && id < config_.vocab_size) request.all_stop_token_ids_.push_back(id);
  }
  request.arrival_order_ = next_arrival_order_++;
  set_draft_gate(request);
  request.scheduler_ = this;
  request.queued_at_step_ = num_schedules_;
  enqueue(request);
}

AbortResult Scheduler::abort_request(Request& request) {
  return finish_request(request, RequestStatus::finished_aborted);
}

AbortResult Scheduler::finish_request(Request& request,
                                      RequestStatus status,
                                      StopReason stop_reason) {
  REPRISE_ASSERT(engine::is_finished(status), "{} ends no request", to_string(status));
  if (request.is_finished()) {
    return request.is_in_flight() ? AbortResult::released_after_step
                                  : AbortResult::already_finished;
  }
  REPRISE_ASSERT(request.scheduler_ == this,
                 "request {} is not known to this scheduler",
                 static_cast<uint64_t>(request.id_));
  const RequestStatus before = std::exchange(request.status_, status);
  request.stop_reason_ = std::move(stop_reason);
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
    promote_waiting();
  }
  propose_drafts();
  int token_budget = config_.max_num_batched_tokens;
  prompt_logits_budget_ = config_.max_prompt_logits;
  const bool has_blocks = schedule_running(token_budget);
  // When a running request lost its blocks in this step or waits for blocks, no waiting request is
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
    const int num_drafts = take_drafts(request, token_budget, num_later);
    num_new_tokens += num_drafts;
    while (kv_cache_manager_->allocate_slots(request.block_table_,
                                             request.num_computed_tokens_ + num_new_tokens) ==
           kv_cache::SlotResult::no_blocks) {
      const Request& victim = *running_.back();
      const bool is_own_victim = &victim == &request;
      // The request has to wait: a step in flight still uses the victim's blocks, or blocks of
      // ended requests become free when that step is done.
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
    // Another request may go first. The rows of the next step are given out by rank again, so this
    // request waits only for requests of its kind.
    if (waits_for_prompt_logits(request)) continue;
    if (!adapters_.has_room_for(request.lora_id())) {
      if (may_be_overtaken(request)) continue;
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

bool Scheduler::may_be_overtaken(const Request& request) const {
  const uint64_t waited = request.num_steps_waited_ + num_schedules_ - request.queued_at_step_;
  return std::cmp_less(waited, config_.max_lora_wait_steps);
}

/// Gives the request its cached prefix and the blocks of its first chunk. Returns false and leaves
/// the request unchanged when it does not fit.
bool Scheduler::admit(Request& request, int token_budget) {
  const kv_cache::KvCacheManager::CachedPrefix prefix = find_prefix(request);
  const int num_found_tokens = prefix.num_blocks * kv_cache_manager_->block_size();
  const int num_cached_tokens = std::max(num_found_tokens, num_tokens_to_import(request));
  if (!config_.enable_chunked_prefill && request.num_tokens() - num_cached_tokens > token_budget) {
    return false;
  }
  if (config_.scheduler_reserve_full_isl &&
      kv_cache::KvCacheManager::num_encoder_blocks(request.block_table_) +
              kv_cache_manager_->blocks_for(request.num_tokens()) - prefix.num_blocks >
          kv_cache_manager_->num_free_blocks() - prefix.num_free_blocks) {
    return false;
  }
  request.num_computed_tokens_ = num_cached_tokens;
  request.shared_prefix_boundary_ =
      prefix.num_blocks_without_states * kv_cache_manager_->block_size();
  const int num_new_tokens = tokens_to_schedule(request, token_budget);
  if (num_new_tokens == 0 ||  // earlier requests have taken the step's rows of logits
      kv_cache_manager_->allocate_slots_after(request.block_table_,
                                              request.block_hashes_,
                                              prefix,
                                              num_cached_tokens + num_new_tokens) ==
          kv_cache::SlotResult::no_blocks) {
    request.num_computed_tokens_ = 0;
    return false;
  }
  request.restored_state_ = prefix.snapshot;
  if (request.num_preemptions_ == 0) count_prefix_lookup(request, num_found_tokens);
  if (num_tokens_to_import(request) > 0) {
    request.first_imported_token_ = num_found_tokens;
    // When the whole prompt was computed elsewhere, its last token makes a decode step.
    if (num_cached_tokens == request.num_tokens() - 1) {
      request.num_prefill_tokens_ = num_cached_tokens;
    }
  }
  return true;
}

int Scheduler::tokens_to_schedule(const Request& request, int token_budget) const {
  // The request got no token in its last step, but a later step was already scheduled as if it had.
  // Wait until that step is done.
  if (request.is_postponed_ && request.is_in_flight()) return 0;
  // The last token that the length limit allows is never computed: no token follows it.
  const auto num_known = static_cast<int>(request.token_ids_with_placeholders().size());
  int num_tokens =
      std::min(num_known, request.max_total_tokens_ - 1) - request.num_computed_tokens_;
  if (config_.long_prefill_token_threshold > 0) {
    num_tokens = std::min(num_tokens, config_.long_prefill_token_threshold);
  }
  num_tokens = limit_to_snapshot(request, std::min(num_tokens, token_budget));
  return limit_to_prompt_logits(request, num_tokens);
}

void Scheduler::append_to_batch(Request& request, int num_scheduled_tokens, int num_drafts) {
  output_->scheduled.push_back(
      {.request = &request,
       .num_scheduled_tokens = num_scheduled_tokens,
       .num_computed_tokens = request.num_computed_tokens_,
       .num_drafts = num_drafts,
       .is_in_prefill = request.is_in_prefill(),
       .first_imported_token = std::exchange(request.first_imported_token_, -1),
       .restored_state = std::exchange(request.restored_state_, kv_cache::kNullStateSlot)});
  ScheduledRequest& entry = output_->scheduled.back();
  schedule_snapshot(request, entry);
  schedule_prompt_logits(request, entry);
  ++request.num_steps_in_flight_;
  request.num_computed_tokens_ += num_scheduled_tokens;
  entry.samples = std::cmp_equal(request.num_computed_tokens_, request.token_ids_.size());
  if (!entry.samples) return;
  request.token_ids_.push_back(kPlaceholder);  // add_request() has reserved the memory
  ++request.num_placeholders_;
  // In front of the new placeholder are the drafts of this step.
  entry.placeholders = std::span(request.token_ids_).last(static_cast<size_t>(1 + num_drafts));
}

void Scheduler::finish_batch() {
  if (config_.pad_drafts) pad_drafts();
  sort_batch(output_->scheduled, config_.decode_query_len);
  output_->total_num_scheduled_tokens = 0;
  output_->num_padding_tokens = 0;
  output_->num_sampling_requests = 0;
  output_->num_sampled_rows = 0;
  output_->num_logits = 0;
  output_->max_query_len = 0;
  output_->any_prefill = false;
  adapters_.clear();
  for (const ScheduledRequest& entry : output_->scheduled) {
    adapters_.add(entry.request->lora_id());
    output_->total_num_scheduled_tokens += entry.num_scheduled_tokens;
    output_->num_padding_tokens += entry.num_padding_tokens;
    output_->num_sampling_requests += static_cast<int>(entry.samples);
    output_->num_sampled_rows += entry.num_sampled_rows();
    output_->num_logits += entry.num_sampled_rows() + entry.num_prompt_logits;
    output_->max_query_len = std::max(output_->max_query_len, entry.query_len());
    output_->any_prefill |= entry.is_in_prefill;
  }
  output_->num_active_loras = adapters_.size();
  output_->common_prefix_len = find_common_prefix();
  if (output_->empty()) {
    --num_schedules_;  // an empty step does not count as waiting time
  } else {
    ++num_in_flight_;
  }
}

bool Scheduler::ranks_before(const Request& a, const Request& b) const {
  const auto rank = [this](const Request& request) {
    const bool has_priority = config_.policy == SchedulingPolicy::priority && !request.is_promoted_;
    return std::tuple(has_priority, has_priority ? request.priority() : 0, request.arrival_order_);
  };
  return rank(a) < rank(b);
}

/// For a new request: searches from the end, because the place is near the end.
void Scheduler::enqueue(Request& request) {
  Request* next = nullptr;
  for (Request* prev = waiting_.back(); prev != nullptr && ranks_before(request, *prev);
       prev = RequestQueue::prev(*prev)) {
    next = prev;
  }
  waiting_.insert_before(next, request);
}

/// For a request that was running or promoted: searches from the front, because the place is near
/// the front.
void Scheduler::enqueue_again(Request& request) {
  Request* next = waiting_.front();
  while (next != nullptr && ranks_before(*next, request)) next = RequestQueue::next(*next);
  waiting_.insert_before(next, request);
}

void Scheduler::start_running(Request& request) {
  waiting_.remove(request);
  request.status_ = RequestStatus::running;
  request.num_steps_waited_ += num_schedules_ - request.queued_at_step_;
  const auto place = std::upper_bound(
      running_.begin(), running_.end(), &request, [this](const Request* a, const Request* b) {
        return ranks_before(*a, *b);
      });
  running_.insert(place, &request);
}

void Scheduler::promote_waiting() {
  const auto max_wait = static_cast<uint64_t>(config_.max_priority_wait_steps);
  for (Request* request = waiting_.front(); request != nullptr;) {
    Request* const next = RequestQueue::next(*request);
    const uint64_t waited = request->num_steps_waited_ + num_schedules_ - request->queued_at_step_;
    if (!request->is_promoted_ && waited >= max_wait) {
      waiting_.remove(*request);
      request->is_promoted_ = true;
      enqueue_again(*request);
    }
    request = next;
  }
}

/// Preempts the victim, the last running request: its blocks are freed and its tokens are computed
/// again later. The victim is never in the batch already, because requests join the batch in the
/// order of their rank, and the victim is the request that needs a block or one that ranks after
/// it.
void Scheduler::preempt_last_running() {
  Request& victim = *running_.back();
  REPRISE_ASSERT(!victim.is_in_flight(),
                 "request {} is preempted after it was scheduled",
                 static_cast<uint64_t>(victim.id_));
  running_.pop_back();
  kv_cache_manager_->free(victim.block_table_);
  victim.num_computed_tokens_ = 0;
  victim.num_prefill_tokens_ = victim.num_tokens();
  victim.status_ = RequestStatus::preempted;
  ++victim.num_preemptions_;
  ++num_preemptions_;
  victim.queued_at_step_ = num_schedules_;
  enqueue_again(victim);
  output_->preempted.push_back(&victim);
}

}  // namespace reprise::engine
