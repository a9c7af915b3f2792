#include "reprise/runner/model_drafter.h"

#include <algorithm>
#include <exception>
#include <iterator>

#include "reprise/base/assert.h"
#include "reprise/runner/model_runner.h"

namespace reprise::runner {

ModelDrafter::ModelDrafter(ModelRunner& runner, const ModelDrafterOptions& options)
    : runner_(&runner),
      options_(options),
      kv_cache_manager_(static_cast<int>(runner.kv_cache().layout().num_blocks),
                        static_cast<int>(runner.kv_cache().layout().block_size),
                        options.prefix_caching),
      most_likely_(runner, options.row_sampler, options.max_num_reqs),
      sampler_(options.vocab_size),
      ledger_(options.max_num_tokens),
      sequences_(static_cast<size_t>(options.max_num_reqs)) {
  REPRISE_ASSERT(options.max_num_tokens >= kFirstQueryLen && options.num_speculative_tokens >= 1,
                 "a step of {} tokens is too short for a drafter, or the number of drafts, {}, is "
                 "not positive",
                 options.max_num_tokens,
                 options.num_speculative_tokens);
  for (Sequence& sequence : sequences_) {
    sequence.drafts.reserve(static_cast<size_t>(options.num_speculative_tokens));
    kv_cache_manager_.reserve(sequence.block_table, options.max_model_len);
  }
  by_request_.reserve(sequences_.size());
  rows_.reserve(sequences_.size());
  drafting_.reserve(sequences_.size());
  batch_.reserve(sequences_.size());
}

void ModelDrafter::propose_all(std::span<speculative::DraftRequest> requests) noexcept {
  try {
    propose(requests);
  } catch (const std::exception&) {
    // The draft model's cache may now hold wrong values. If the device is lost, the main model's
    // step reports it.
    ++num_failed_calls_;
    for (speculative::DraftRequest& request : requests) request.num_drafts = 0;
    for (Sequence& sequence : sequences_) {
      kv_cache_manager_.unpublish(sequence.block_table);
      forget(sequence);
    }
  }
}

void ModelDrafter::end_request(const speculative::EndedRequest& request) noexcept {
  const auto found = by_request_.find(request.request_id);
  if (found != by_request_.end()) forget(sequences_[found->second]);
}

void ModelDrafter::forget_all() {
  for (Sequence& sequence : sequences_) forget(sequence);
  const bool is_empty = kv_cache_manager_.reset_prefix_cache();
  REPRISE_ASSERT(is_empty, "a block of the draft model's cache was lost: no request owns it");
}

void ModelDrafter::propose(std::span<speculative::DraftRequest> requests) {
  ++num_calls_;
  rows_.clear();
  for (const speculative::DraftRequest& request : requests) {
    const auto found = by_request_.find(request.request_id);
    if (found != by_request_.end()) sequences_[found->second].last_call = num_calls_;
  }
  for (speculative::DraftRequest& request : requests) {
    request.num_drafts = 0;
    Row row{.request = &request};
    if (open_row(row)) rows_.push_back(row);
  }
  catch_up();
  for (size_t index = 0; std::cmp_less(index, options_.num_speculative_tokens); ++index) {
    draft(index);
  }
  for (Row& row : rows_) close_row(row);
}

/// Finds the request's part of the cache and gives the request blocks for all steps of the call.
/// Returns false if the request can have no drafts.
bool ModelDrafter::open_row(Row& row) {
  const auto num_known = static_cast<int>(row.request->token_ids.size());
  // The last draft is never computed, so it needs no position.
  row.most = std::min(static_cast<int>(row.request->drafts.size()),
                      options_.max_model_len - num_known + 1);
  if (row.most <= 0 || num_known < kFirstQueryLen) return false;
  row.sequence = &find_sequence(*row.request);
  Sequence& sequence = *row.sequence;
  keep_what_is_right(sequence, row.request->token_ids);
  sequence.num_known = num_known;
  sequence.drafts.clear();
  if (allocate(row)) return true;
  forget(sequence);
  return false;
}

ModelDrafter::Sequence& ModelDrafter::find_sequence(const speculative::DraftRequest& request) {
  const auto found = by_request_.find(request.request_id);
  if (found != by_request_.end()) return sequences_[found->second];
  auto unused = std::ranges::find(sequences_, uint64_t{0}, &Sequence::last_call);
  if (unused == sequences_.end()) {
    Sequence* oldest = longest_unused();
    REPRISE_ASSERT(oldest != nullptr, "more than {} requests in a step", sequences_.size());
    forget(*oldest);
    unused = sequences_.begin() + (oldest - sequences_.data());
  }
  start(*unused, request);
  by_request_.emplace(request.request_id, static_cast<size_t>(unused - sequences_.begin()));
  return *unused;
}

void ModelDrafter::start(Sequence& sequence, const speculative::DraftRequest& request) {
  sequence.request_id = request.request_id;
  sequence.last_call = num_calls_;
  sequence.num_known = 0;
  sequence.num_computed = 0;
  sequence.block_hashes = kv_cache_manager_.make_chain({.cache_salt = request.cache_salt});
  sequence.block_hashes.reserve(options_.max_model_len);
}

/// Drops the drafts of the last call that the main model did not accept, and the tokens that the
/// first step of this call computes again.
void ModelDrafter::keep_what_is_right(Sequence& sequence, std::span<const int32_t> token_ids) {
  const auto is_right = [&](int position) {
    return std::cmp_less(position, token_ids.size()) &&
           token_ids[static_cast<size_t>(position)] ==
               sequence.drafts[static_cast<size_t>(position - sequence.num_known)];
  };
  int num_right = std::min(sequence.num_computed, sequence.num_known);
  while (num_right < sequence.num_computed && is_right(num_right)) ++num_right;
  sequence.num_computed = std::min(num_right, static_cast<int>(token_ids.size()) - kFirstQueryLen);
}

/// Gives the row blocks for its known tokens and its drafts. If there are too few, requests that
/// take no part in this call lose their blocks.
bool ModelDrafter::allocate(Row& row) {
  Sequence& sequence = *row.sequence;
  const int num_tokens = sequence.num_known + row.most - 1;
  for (;;) {
    kv_cache::SlotResult result = kv_cache::SlotResult::no_blocks;
    if (sequence.block_table.empty()) {
      const int most_cached = sequence.num_known - kFirstQueryLen;
      sequence.block_hashes.extend(row.request->token_ids);
      const auto prefix = kv_cache_manager_.find_prefix(
          sequence.block_hashes, most_cached / kv_cache_manager_.block_size());
      result = kv_cache_manager_.allocate_slots_after(
          sequence.block_table, sequence.block_hashes, prefix, num_tokens);
      sequence.num_computed = prefix.num_blocks * kv_cache_manager_.block_size();
    } else {
      result = kv_cache_manager_.allocate_slots(sequence.block_table, num_tokens);
    }
    if (result == kv_cache::SlotResult::allocated) return true;
    Sequence* oldest = longest_unused();
    if (oldest == nullptr) return false;
    forget(*oldest);
  }
}

/// The sequence that was used longest ago and is not part of this call; nullptr if there is none.
ModelDrafter::Sequence* ModelDrafter::longest_unused() {
  Sequence* oldest = nullptr;
  for (Sequence& sequence : sequences_) {
    if (sequence.last_call == 0 || sequence.last_call == num_calls_) continue;
    if (oldest == nullptr || sequence.last_call < oldest->last_call) oldest = &sequence;
  }
  return oldest;
}

void ModelDrafter::forget(Sequence& sequence) {
  kv_cache_manager_.free(sequence.block_table);
  by_request_.erase(sequence.request_id);
  sequence.last_call = 0;
}

/// Computes tokens that the cache lacks, except the last two of each request; as many as fit into
/// one step. Rows that are not complete afterwards get no drafts in this call.
void ModelDrafter::catch_up() {
  batch_.clear();
  int budget = options_.max_num_tokens;
  for (Row& row : rows_) {
    Sequence& sequence = *row.sequence;
    const int missing = sequence.num_known - kFirstQueryLen - sequence.num_computed;
    const int count = std::min(missing, budget);
    if (missing > count) row.most = 0;
    if (count == 0) continue;
    batch_.push_back({.token_ids = row.request->token_ids.subspan(
                          static_cast<size_t>(sequence.num_computed), static_cast<size_t>(count)),
                      .num_computed_tokens = sequence.num_computed,
                      .block_ids = sequence.block_table.block_ids()});
    sequence.num_computed += count;
    budget -= count;
  }
  if (batch_.empty()) return;
  const cudagraph::BatchFacts facts{.num_tokens = options_.max_num_tokens - budget,
                                    .num_reqs = static_cast<int32_t>(batch_.size())};
  ledger_.record(facts, runner_->execute(batch_, facts).decision);
}

/// Proposes draft `index` for all rows that want one, in as few steps as the limits allow.
void ModelDrafter::draft(size_t index) {
  drafting_.clear();
  for (Row& row : rows_) {
    const bool has_earlier = std::cmp_equal(row.request->num_drafts, index);
    if (has_earlier && std::cmp_less(index, row.most)) drafting_.push_back(&row);
  }
  const int32_t query_len = index == 0 ? kFirstQueryLen : 1;
  const auto most_rows =
      static_cast<size_t>(std::min(options_.max_num_reqs, options_.max_num_tokens / query_len));
  for (std::span<Row*> rest = drafting_; !rest.empty();) {
    const size_t count = std::min(rest.size(), most_rows);
    run_rows(rest.first(count), index);
    rest = rest.subspan(count);
  }
}

void ModelDrafter::run_rows(std::span<Row*> rows, size_t index) {
  batch_.clear();
  const int32_t query_len = index == 0 ? kFirstQueryLen : 1;
  for (Row* row : rows) {
    Sequence& sequence = *row->sequence;
    // In memory the drafts follow the tokens.
    const int32_t* tokens = row->request->token_ids.data();
    batch_.push_back({.token_ids = {tokens + sequence.num_computed, static_cast<size_t>(query_len)},
                      .num_computed_tokens = sequence.num_computed,
                      .block_ids = sequence.block_table.block_ids(),
                      .samples = true});
    sequence.num_computed += query_len;
  }
  const auto num_rows = static_cast<int32_t>(rows.size());
  const cudagraph::BatchFacts facts{.num_tokens = num_rows * query_len,
                                    .num_reqs = num_rows,
                                    .uniform = true,
                                    .query_len = query_len,
                                    .num_logits = num_rows};
  const StepResult& result = runner_->execute(batch_, facts);
  ledger_.record(facts, result.decision);
  take_drafts(rows, index, result);
}

/// Chooses draft `index` of rows, which have the first rows of the logits.
void ModelDrafter::take_drafts(std::span<Row*> rows, size_t index, const StepResult& result) {
  if (std::ranges::all_of(rows, [this](const Row* row) { return wants_most_likely(*row); })) {
    const std::span<const int32_t> tokens =
        most_likely_.choose(result, static_cast<int32_t>(rows.size()));
    for (size_t i = 0; i < rows.size(); ++i) add_draft(*rows[i], index, tokens[i]);
    return;
  }
  runner_->wait();
  for (size_t i = 0; i < rows.size(); ++i) {
    sample(*rows[i], index, runner_->logits_row(result, static_cast<int32_t>(i)));
  }
}

/// Whether the draft is the token with the largest logit.
bool ModelDrafter::wants_most_likely(const Row& row) const {
  const sampling::SamplingParams& params = *row.request->next.params;
  if (!params.is_greedy()) {
    return options_.sample_method == speculative::DraftSampleMethod::greedy;
  }
  return params.repetition_penalty == 1 && params.presence_penalty == 0 &&
         params.frequency_penalty == 0 && params.logit_bias.empty() &&
         params.allowed_token_ids.empty() && params.bad_words_token_ids.empty() &&
         row.request->next.suppressed_token_ids.empty() && row.request->next.allowed_mask.empty();
}

/// Samples draft `index` with the request's own parameters. If there is no token to propose, the
/// row gets no further drafts.
void ModelDrafter::sample(Row& row, size_t index, std::span<const float> logits) {
  if (wants_most_likely(row)) {
    const auto token = std::ranges::max_element(logits) - logits.begin();
    return add_draft(row, index, static_cast<int32_t>(token));
  }
  sampling::SamplingInput input = row.request->sampling_at(index);
  input.logits = logits;
  sampler_.sample(input, sampled_);
  if (sampled_.status == sampling::SamplingStatus::ok) add_draft(row, index, sampled_.token_id);
}

void ModelDrafter::add_draft(Row& row, size_t index, int32_t token) {
  row.request->drafts[index] = token;
  row.sequence->drafts.push_back(token);
  ++row.request->num_drafts;
}

/// Lets other requests find the tokens that no later step writes again.
void ModelDrafter::close_row(Row& row) {
  Sequence& sequence = *row.sequence;
  const int num_final = std::min(sequence.num_computed, sequence.num_known - kFirstQueryLen);
  sequence.block_hashes.extend(row.request->token_ids);
  kv_cache_manager_.publish(sequence.block_table, sequence.block_hashes, num_final);
}

}  // namespace reprise::runner
