#include "reprise/runner/head_drafter.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/runner/followed_step.h"
#include "reprise/runner/model_runner.h"

namespace reprise::runner {
namespace {

/// Blocks for the tokens that only drafts need: all but the first of them are computed.
int64_t scratch_blocks_per_request(int32_t num_speculative_tokens, int32_t block_size) {
  return (num_speculative_tokens - 1 + block_size - 1) / block_size;
}

/// How many sampled tokens became tokens of the request.
int count_new_tokens(std::span<const sampling::SampledToken> sampled) {
  const auto end = std::ranges::find_if(sampled, [](const sampling::SampledToken& token) {
    return token.status != sampling::SamplingStatus::ok;
  });
  return static_cast<int>(end - sampled.begin());
}

}  // namespace

HeadDrafter::HeadDrafter(ModelRunner& runner,
                         models::DraftHead& head,
                         const HeadDrafterOptions& options)
    : runner_(&runner),
      head_(&head),
      options_(options),
      hidden_bytes_(runner.hidden_memory().bytes / static_cast<size_t>(options.max_num_tokens)),
      feature_bytes_(hidden_bytes_ / static_cast<size_t>(head.hidden_input_size()) *
                     static_cast<size_t>(head.feature_size())),
      features_(runner.execution().device().allocate(feature_bytes_ *
                                                     static_cast<size_t>(options.max_num_tokens))),
      kept_hidden_(runner.execution().device().allocate(hidden_bytes_ *
                                                        static_cast<size_t>(options.max_num_reqs))),
      most_likely_(runner, options.row_sampler, options.max_num_reqs),
      ledger_(options.max_num_tokens) {
  const kv_cache::KvCacheLayout& layout = runner.kv_cache().layout();
  REPRISE_ASSERT(
      layout.num_blocks == num_blocks(options.num_main_blocks,
                                      options.max_num_reqs,
                                      options.num_speculative_tokens,
                                      static_cast<int32_t>(layout.block_size)),
      "the draft head's cache has {} blocks, which does not fit the {} of the main model",
      layout.num_blocks,
      options.num_main_blocks);
  runner.execution().stream().fill(features_.data(), std::byte{0}, features_.bytes());
  const auto max_num_reqs = static_cast<size_t>(options.max_num_reqs);
  batch_.reserve(max_num_reqs);
  parts_.reserve(max_num_reqs);
  rows_.reserve(max_num_reqs);
  drafting_.reserve(max_num_reqs);
  tokens_.reserve(max_num_reqs);
  block_ids_.resize(max_num_reqs);
  const BatchLimits& limits = runner.input_batch().limits();
  for (auto& ids : block_ids_) ids.reserve(static_cast<size_t>(limits.max_blocks_per_req) + 1);
}

int64_t HeadDrafter::num_blocks(int64_t num_main_blocks,
                                int32_t max_num_reqs,
                                int32_t num_speculative_tokens,
                                int32_t block_size) noexcept {
  return num_main_blocks +
         max_num_reqs * scratch_blocks_per_request(num_speculative_tokens, block_size);
}

int64_t HeadDrafter::memory_bytes(const ModelRunner& runner,
                                  const models::DraftHead& head,
                                  int32_t max_num_tokens,
                                  int32_t max_num_reqs) noexcept {
  const int64_t hidden = static_cast<int64_t>(runner.hidden_memory().bytes) / max_num_tokens;
  return hidden / head.hidden_input_size() * head.feature_size() * max_num_tokens +
         hidden * max_num_reqs;
}

void HeadDrafter::follow(const speculative::FollowedStep& followed) noexcept {
  rows_.clear();
  try {
    run_first_step(followed.step, followed.result);
  } catch (const std::exception&) {
    // If the device is lost, the main model's next step reports it.
    ++num_failed_calls_;
    rows_.clear();
  }
}

void HeadDrafter::run_first_step(const ModelStep& step, const StepResult& result) {
  gather(step);
  if (batch_.empty()) return;
  int32_t num_rows = 0;
  int32_t num_logits = 0;
  for (const scheduler::StepEntry& request : batch_) {
    num_rows += request.query_len();
    num_logits += request.num_logits();
  }
  stage_features(result.auxiliary, num_rows);
  const cudagraph::BatchFacts facts{.num_tokens = num_rows,
                                    .num_reqs = static_cast<int32_t>(batch_.size()),
                                    .uniform = step.facts.uniform,
                                    .query_len = step.facts.query_len,
                                    .ragged_drafts = step.facts.ragged_drafts,
                                    .num_logits = num_logits};
  const StepResult& of_head = runner_->execute(batch_, facts);
  ledger_.record(facts, of_head.decision);
  if (num_logits > 0) take_first_drafts(of_head);
}

/// Selects the tokens of the step that are final now. The head reads each of them together with the
/// hidden state of the token before it.
void HeadDrafter::gather(const ModelStep& step) {
  batch_.clear();
  parts_.clear();
  std::span<const sampling::SampledToken> sampled = step.sampled;
  int32_t source_row = 0;
  int32_t row = 0;
  for (const scheduler::StepEntry& request : step.scheduled->scheduled) {
    const auto num_sampled = static_cast<size_t>(request.num_sampled_rows());
    const int num_new = count_new_tokens(sampled.first(num_sampled));
    sampled = sampled.subspan(num_sampled);
    // Leaves out rejected drafts, and a last token after which no token is known.
    const auto num_final = static_cast<int32_t>(request.token_ids.size() - num_sampled) + num_new;
    if (num_final > 0) {
      // The token after the last token of the step is known: it is in the prompt, or was just
      // sampled.
      batch_.push_back(
          {.token_ids = {request.token_ids.data() + 1, static_cast<size_t>(num_final)},
           .num_computed_tokens = request.num_computed_tokens,
           .block_ids = request.block_ids,
           .samples = num_new > 0,
           .num_padding_tokens = step.facts.uniform ? request.query_len() - num_final : 0,
           .request = request.request});
      parts_.push_back({.source_row = source_row, .row = row, .num_tokens = num_final});
      row += batch_.back().query_len();
    }
    source_row += request.query_len();
  }
}

/// Copies the main model's hidden states to where the head's step reads them.
void HeadDrafter::stage_features(const Tensor& auxiliary, int32_t num_rows) {
  REPRISE_ASSERT(
      auxiliary.defined() && auxiliary.is_dense() && auxiliary.size(1) == head_->feature_size(),
      "the main model gives no hidden states for its draft head");
  Execution& execution = runner_->execution();
  device::Stream& stream = execution.stream();
  const auto* from = static_cast<const std::byte*>(auxiliary.data());
  auto* to = static_cast<std::byte*>(features_.data());
  for (const Part& part : parts_) {
    stream.copy(to + static_cast<size_t>(part.row) * feature_bytes_,
                from + static_cast<size_t>(part.source_row) * feature_bytes_,
                static_cast<size_t>(part.num_tokens) * feature_bytes_);
  }
  const Tensor features = Tensor::borrow({auxiliary.dtype(), {num_rows, head_->feature_size()}},
                                         features_.data(),
                                         execution.executor());
  const Tensor combined = head_->combine(features);
  stream.copy(runner_->hidden_memory().data,
              combined.data(),
              static_cast<size_t>(num_rows) * hidden_bytes_);
}

void HeadDrafter::take_first_drafts(const StepResult& result) {
  const std::span<const int32_t> tokens = most_likely(result, result.num_logits);
  size_t logits_row = 0;
  for (size_t i = 0; i < batch_.size(); ++i) {
    const scheduler::StepEntry& request = batch_[i];
    if (!request.samples) continue;
    const size_t index = rows_.size();
    rows_.push_back({.request_id = static_cast<uint64_t>(request.request->id()),
                     .num_known = request.num_computed_tokens + parts_[i].num_tokens + 1,
                     .first_draft = tokens[logits_row++],
                     .index = index});
    keep_hidden(index, result.auxiliary, parts_[i].row + parts_[i].num_tokens - 1);
    block_ids_[index].assign(request.block_ids.begin(), request.block_ids.end());
  }
  std::ranges::sort(rows_, {}, &Row::request_id);
}

void HeadDrafter::propose_all(std::span<speculative::DraftRequest> requests) noexcept {
  for (speculative::DraftRequest& request : requests) request.num_drafts = 0;
  try {
    propose(requests);
  } catch (const std::exception&) {
    ++num_failed_calls_;
    for (speculative::DraftRequest& request : requests) request.num_drafts = 0;
  }
  rows_.clear();
}

void HeadDrafter::propose(std::span<speculative::DraftRequest> requests) {
  for (speculative::DraftRequest& request : requests) {
    Row* const row = find_row(request);
    if (row == nullptr) continue;
    // The last draft is never computed, so it needs no position.
    row->most = std::min(static_cast<int>(request.drafts.size()),
                         options_.max_model_len - row->num_known + 1);
    if (row->most <= 0) continue;
    row->request = &request;
    request.drafts[0] = row->first_draft;
    request.num_drafts = 1;
  }
  for (size_t index = 1; std::cmp_less(index, options_.num_speculative_tokens); ++index) {
    draft(index);
  }
}

/// The request's row of the last step, if the request has had no step since.
HeadDrafter::Row* HeadDrafter::find_row(const speculative::DraftRequest& request) {
  const auto found = std::ranges::lower_bound(rows_, request.request_id, {}, &Row::request_id);
  const bool is_there = found != rows_.end() && found->request_id == request.request_id &&
                        std::cmp_equal(found->num_known, request.token_ids.size());
  return is_there ? &*found : nullptr;
}

/// Proposes draft `index` for all rows that want one. The head reads the draft before it.
void HeadDrafter::draft(size_t index) {
  drafting_.clear();
  batch_.clear();
  const int64_t block_size = runner_->kv_cache().layout().block_size;
  for (Row& row : rows_) {
    if (row.request == nullptr || std::cmp_greater_equal(index, row.most)) continue;
    const int position = row.num_known - 2 + static_cast<int>(index);
    std::vector<kv_cache::BlockId>& block_ids = block_ids_[row.index];
    if (std::cmp_less_equal(block_ids.size(), position / block_size)) {
      block_ids.push_back(next_scratch_block(row));
    }
    runner_->execution().stream().copy(
        static_cast<std::byte*>(runner_->hidden_memory().data) + batch_.size() * hidden_bytes_,
        hidden_of(row.index),
        hidden_bytes_);
    batch_.push_back({.token_ids = row.request->drafts.subspan(index - 1, 1),
                      .num_computed_tokens = position,
                      .block_ids = block_ids,
                      .samples = true});
    drafting_.push_back(&row);
  }
  if (batch_.empty()) return;
  const auto num_rows = static_cast<int32_t>(batch_.size());
  const cudagraph::BatchFacts facts{.num_tokens = num_rows,
                                    .num_reqs = num_rows,
                                    .uniform = true,
                                    .query_len = 1,
                                    .num_logits = num_rows};
  const StepResult& result = runner_->execute(batch_, facts);
  ledger_.record(facts, result.decision);
  const std::span<const int32_t> tokens = most_likely(result, num_rows);
  for (int32_t i = 0; i < num_rows; ++i) {
    const Row& row = *drafting_[static_cast<size_t>(i)];
    row.request->drafts[index] = tokens[static_cast<size_t>(i)];
    ++row.request->num_drafts;
    keep_hidden(row.index, result.auxiliary, i);
  }
}

/// Positions grow by one per draft, so one new block at a time is enough.
kv_cache::BlockId HeadDrafter::next_scratch_block(Row& row) {
  const auto block_size = static_cast<int32_t>(runner_->kv_cache().layout().block_size);
  const int64_t per_request =
      scratch_blocks_per_request(options_.num_speculative_tokens, block_size);
  const int64_t first = options_.num_main_blocks + static_cast<int64_t>(row.index) * per_request;
  return kv_cache::BlockId{static_cast<int32_t>(first + row.num_scratch_blocks++)};
}

std::span<const int32_t> HeadDrafter::most_likely(const StepResult& result, int32_t count) {
  const std::vector<int32_t>& ids = head_->target_ids();
  tokens_.clear();
  for (const int32_t row : most_likely_.choose(result, count)) {
    tokens_.push_back(ids.empty() ? row : ids[static_cast<size_t>(row)]);
  }
  return tokens_;
}

/// Copies the hidden state that the next step of this request reads, because the memory of the
/// result is soon reused.
void HeadDrafter::keep_hidden(size_t index, const Tensor& auxiliary, int32_t row) {
  runner_->execution().stream().copy(
      hidden_of(index),
      static_cast<const std::byte*>(auxiliary.data()) + static_cast<size_t>(row) * hidden_bytes_,
      hidden_bytes_);
}

}  // namespace reprise::runner
