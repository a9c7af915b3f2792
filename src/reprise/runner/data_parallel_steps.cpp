#include "reprise/runner/data_parallel_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace reprise::runner {
namespace {

using cudagraph::CudagraphRuntimeMode;

std::string last_step_text(const DPMetadata& metadata) {
  return fmt::format("{} tokens={} ({:016x})",
                     to_string(static_cast<CudagraphRuntimeMode>(metadata.last_mode)),
                     metadata.last_num_tokens,
                     metadata.last_descriptor);
}

}  // namespace

PlannedKeys::PlannedKeys(const cudagraph::CudagraphDispatcher& dispatcher) {
  for (const cudagraph::CaptureGroup& group : dispatcher.capture_plan()) {
    for (const cudagraph::BatchDescriptor& descriptor : group.descriptors) {
      keys_.push_back({.mode = group.mode, .descriptor = descriptor});
    }
  }
}

int32_t PlannedKeys::find(const cudagraph::PlannedKey& key) const noexcept {
  const auto found = std::ranges::find(keys_, key);
  return found == keys_.end() ? -1 : static_cast<int32_t>(found - keys_.begin());
}

uint64_t PlannedKeys::digest(const cudagraph::CudagraphDispatcher& dispatcher) const noexcept {
  uint64_t digest = 0xcbf29ce484222325ULL;
  for (const cudagraph::PlannedKey& key : keys_) {
    const bool is_live = dispatcher.is_captured(key.mode, key.descriptor);
    digest = (digest ^ (is_live ? 1U : 2U)) * 0x100000001b3ULL;
  }
  return digest;
}

std::optional<cudagraph::BatchFacts> merge_batches(std::span<const DPMetadata> of_ranks) noexcept {
  cudagraph::BatchFacts merged;
  bool is_uniform = true;
  for (const DPMetadata& metadata : of_ranks) {
    if (metadata.num_tokens == 0) continue;
    const bool is_first = merged.num_tokens == 0;
    is_uniform = is_uniform && metadata.is_uniform != 0 &&
                 (is_first || metadata.query_len == merged.query_len);
    merged.num_tokens = std::max(merged.num_tokens, metadata.num_tokens);
    merged.num_reqs = std::max(merged.num_reqs, metadata.num_reqs);
    merged.num_logits = std::max(merged.num_logits, metadata.num_logits);
    merged.query_len = metadata.query_len;
    merged.ragged_drafts = merged.ragged_drafts || metadata.has_ragged_drafts != 0;
  }
  if (merged.num_tokens == 0) return std::nullopt;
  merged.uniform = is_uniform;
  merged.query_len = is_uniform ? merged.query_len : 0;
  return merged;
}

void DataParallelSteps::begin_wave() {
  const uint64_t wave = ended_wave_ + 1;
  join_wave(wave);
  if (on_begin_) on_begin_(wave);
}

void DataParallelSteps::join_wave(uint64_t wave) noexcept {
  uint64_t known = wanted_wave_;
  while (known < wave && !wanted_wave_.compare_exchange_weak(known, wave)) {
  }
}

void DataParallelSteps::keep(const cudagraph::Decision& decision) noexcept {
  mine_.last_mode = static_cast<int32_t>(decision.mode);
  mine_.last_num_tokens = decision.descriptor.num_tokens;
  mine_.last_descriptor = std::hash<cudagraph::BatchDescriptor>()(decision.descriptor);
}

std::optional<cudagraph::BatchFacts> DataParallelSteps::agree(
    const cudagraph::BatchFacts& batch,
    const PlannedKeys& keys,
    cudagraph::CudagraphDispatcher& dispatcher) {
  if (!is_wave_running()) begin_wave();
  mine_.num_tokens = batch.num_tokens;
  mine_.num_reqs = batch.num_reqs;
  mine_.num_logits = batch.num_logits;
  mine_.query_len = batch.query_len;
  mine_.is_uniform = static_cast<int32_t>(batch.uniform);
  mine_.has_ragged_drafts = static_cast<int32_t>(batch.ragged_drafts);
  mine_.retired_key = to_retire_.empty() ? -1 : to_retire_.front();
  if (!to_retire_.empty()) to_retire_.pop_front();
  if (mine_.live_keys == 0) mine_.live_keys = keys.digest(dispatcher);
  std::array<DPMetadata, parallel::Communicator::kMaxRanks> buffer;
  ranks_->all_gather(parallel::Operation::agreement, &mine_, buffer.data(), sizeof mine_);
  const auto all = std::span<const DPMetadata>(buffer).first(static_cast<size_t>(ranks_->size()));
  compare(all);
  ++num_steps_;
  retired_.clear();
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    const int32_t retired = all[static_cast<size_t>(rank)].retired_key;
    if (retired < 0 || retired >= keys.size()) continue;
    const cudagraph::PlannedKey& key = keys.key(retired);
    (void)dispatcher.retire(
        key.mode,
        key.descriptor,
        fmt::format("rank {} can no longer replay it", ranks_->world_rank(rank)));
    retired_.push_back(retired);
  }
  if (!retired_.empty()) mine_.live_keys = keys.digest(dispatcher);
  std::optional<cudagraph::BatchFacts> merged = merge_batches(all);
  if (!merged) ended_wave_ = ended_wave_ + 1;
  return merged;
}

void DataParallelSteps::compare(std::span<const DPMetadata> all) const {
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const DPMetadata& theirs = all[rank];
    const bool ran_alike = theirs.last_mode == all[0].last_mode &&
                           theirs.last_num_tokens == all[0].last_num_tokens &&
                           theirs.last_descriptor == all[0].last_descriptor;
    if (ran_alike && theirs.live_keys == all[0].live_keys) continue;
    const int name = ranks_->world_rank(static_cast<int>(rank));
    ranks_->link().fail_and_throw(
        ran_alike ? fmt::format("before step {}, rank {} has other graphs than rank {} "
                                "({:016x}, {:016x}): a retired key must be retired on all ranks",
                                num_steps_,
                                name,
                                ranks_->world_rank(0),
                                theirs.live_keys,
                                all[0].live_keys)
                  : fmt::format("rank {} ran data-parallel step {} as {}, but rank {} as {}",
                                name,
                                num_steps_,
                                last_step_text(theirs),
                                ranks_->world_rank(0),
                                last_step_text(all[0])));
  }
}

}  // namespace reprise::runner
