// The members of ModelRunner that concern other ranks and other engines.
#include <fmt/format.h>

#include "reprise/device/error.h"
#include "reprise/runner/model_runner.h"

namespace reprise::engine {

std::optional<cudagraph::BatchFacts> ModelRunner::agree(std::span<const BatchRequest> requests,
                                                        const cudagraph::BatchFacts& facts) {
  std::optional<cudagraph::BatchFacts> agreed = facts;
  std::span<const int32_t> retired = to_retire_;
  if (DataParallelSteps* steps = options_.data_parallel) {
    for (const int32_t key : to_retire_) steps->retire_later(key);
    agreed = steps->agree(facts, *planned_keys_, dispatcher_);
    retired = steps->retired();
  }
  retire(retired);
  if (leader_ && agreed) leader_->announce(requests, *agreed, retired);
  to_retire_.clear();
  return agreed;
}

const StepResult& ModelRunner::execute(std::span<const BatchRequest> requests,
                                       const cudagraph::BatchFacts& facts,
                                       const TokensOnDevice& tokens) {
  cudagraph::BatchFacts decided = facts;
  // The other ranks do as rank 0 decides. Engines in lockstep do without: all must have one mode.
  const bool decides = options_.ranks == nullptr || leader_.has_value();
  if (decides && cascade_ != nullptr && options_.data_parallel == nullptr) {
    decided.cascade = cascade_->is_faster(facts);
  }
  if (!planned_keys_) return execute_here(requests, decided, tokens);
  try {
    const cudagraph::BatchFacts agreed = agree(requests, decided).value_or(decided);
    ++num_rank_steps_;
    return execute_here(requests, agreed, tokens);
  } catch (const parallel::RankError& error) {
    throw device::DeviceError(error.what(), device::DeviceError::Severity::sticky);
  }
}

bool ModelRunner::execute_idle() {
  REPRISE_ASSERT(options_.data_parallel != nullptr, "steps need no other engine");
  try {
    const std::optional<cudagraph::BatchFacts> agreed = agree({}, {});
    if (!agreed) return false;
    ++num_rank_steps_;
    (void)execute_here({}, *agreed, {});
    wait();
    spans_.clear();
    return true;
  } catch (const parallel::RankError& error) {
    throw device::DeviceError(error.what(), device::DeviceError::Severity::sticky);
  }
}

void ModelRunner::retire(std::span<const int32_t> keys) {
  for (const int32_t index : keys) {
    if (index == stale_key_) stale_key_ = -1;
    if (!planned_keys_ || index < 0 || index >= planned_keys_->size()) continue;
    const cudagraph::PlannedKey& key = planned_keys_->key(index);
    (void)dispatcher_.retire(key.mode, key.descriptor, "a rank can no longer replay it");
  }
}

void ModelRunner::retire_stale(const cudagraph::Decision& decision,
                               const std::string& reason,
                               StepLaunches before) {
  retired_.push_back({decision.mode, decision.descriptor, reason});
  const bool has_launched = launches_so_far() != before;
  if (planned_keys_) {
    // The other ranks have already exchanged what these launches exchanged.
    if (has_launched) {
      throw parallel::RankError(fmt::format("a step of several ranks stopped halfway: {}", reason));
    }
    stale_key_ = planned_keys_->find({.mode = decision.mode, .descriptor = decision.descriptor});
    const bool is_leader = options_.ranks == nullptr || leader_;
    if (is_leader && stale_key_ >= 0) to_retire_.push_back(stale_key_);
    return;
  }
  dispatcher_.retire(decision.mode, decision.descriptor, reason);
  // Pieces before the one that moved may have run. Caches of keys and values would be written
  // again with the same content, but a state must not take the same token twice.
  if (!states_.tensors().empty() && has_launched) {
    throw Error(
        fmt::format("the step stopped after recurrent layers had changed states: {}", reason));
  }
}

void ModelRunner::stop_other_ranks() noexcept {
  if (!leader_) return;
  try {
    leader_->stop();
  } catch (const std::exception&) {
    // A rank is lost, which was reported where it was noticed.
  }
}

void ModelRunner::wait() {
  const PhaseTimer timer(spans_, StepPhase::wait);
  execution_->stream().synchronize();
  if (options_.ranks == nullptr) return;
  try {
    options_.ranks->check();
  } catch (const parallel::RankError& error) {
    throw device::DeviceError(error.what(), device::DeviceError::Severity::sticky);
  }
}

}  // namespace reprise::engine
