#include "reprise/runner/ranked_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>

#include "reprise/base/assert.h"

namespace reprise::runner {

RankedSteps::RankedSteps(parallel::Communicator* ranks,
                         DataParallelSteps* data_parallel,
                         cudagraph::CudagraphDispatcher& dispatcher)
    : ranks_(ranks),
      data_parallel_(data_parallel),
      dispatcher_(&dispatcher),
      planned_keys_(dispatcher) {
  if (ranks != nullptr && ranks->rank() == 0) leader_.emplace(*ranks);
}

std::optional<cudagraph::BatchFacts> RankedSteps::agree(
    std::span<const scheduler::StepEntry> requests, const cudagraph::BatchFacts& facts) {
  std::optional<cudagraph::BatchFacts> agreed = facts;
  std::span<const int32_t> retired = to_retire_;
  if (data_parallel_ != nullptr) {
    for (const int32_t key : to_retire_) data_parallel_->retire_later(key);
    agreed = data_parallel_->agree(facts, planned_keys_, *dispatcher_);
    retired = data_parallel_->retired();
  }
  retire(retired);
  if (leader_ && agreed) leader_->announce(requests, *agreed, retired);
  to_retire_.clear();
  if (agreed) ++num_steps_;
  return agreed;
}

void RankedSteps::compare(const cudagraph::Decision& decision,
                          std::span<const scheduler::StepEntry> requests) {
  if (ranks_ != nullptr) {
    const int32_t stale = agree_on_step(*ranks_, num_steps_, decision, requests, stale_key_);
    if (leader_ && stale >= 0) to_retire_.push_back(stale);
  }
  if (data_parallel_ != nullptr) data_parallel_->keep(decision);
}

bool RankedSteps::any_rank_differs(bool differs_here) {
  REPRISE_ASSERT(data_parallel_ == nullptr, "engines in lockstep compare no replays");
  if (ranks_ == nullptr) return differs_here;
  const auto mine = static_cast<uint8_t>(differs_here);
  std::array<uint8_t, parallel::Communicator::kMaxRanks> all{};
  ranks_->all_gather(parallel::Operation::agreement, &mine, all.data(), sizeof mine);
  return std::ranges::any_of(std::span(all).first(static_cast<size_t>(ranks_->size())),
                             [](uint8_t differs) { return differs != 0; });
}

void RankedSteps::compare_capture(const cudagraph::CaptureReport& report) {
  if (ranks_ != nullptr) agree_on_capture(*ranks_, *dispatcher_, report);
  if (data_parallel_ != nullptr) agree_on_capture(data_parallel_->ranks(), *dispatcher_, report);
}

void RankedSteps::retire(std::span<const int32_t> keys) {
  for (const int32_t index : keys) {
    if (index == stale_key_) stale_key_ = -1;
    if (index < 0 || index >= planned_keys_.size()) continue;
    const cudagraph::PlannedKey& key = planned_keys_.key(index);
    (void)dispatcher_->retire(key.mode, key.descriptor, "a rank can no longer replay it");
  }
}

void RankedSteps::retire_stale(const cudagraph::Decision& decision,
                               const std::string& reason,
                               bool has_launched) {
  if (has_launched) {
    throw parallel::RankError(fmt::format("a step of several ranks stopped halfway: {}", reason));
  }
  stale_key_ = planned_keys_.find({.mode = decision.mode, .descriptor = decision.descriptor});
  if (is_leader() && stale_key_ >= 0) to_retire_.push_back(stale_key_);
}

parallel::Communicator* RankedSteps::connected() const noexcept {
  if (ranks_ != nullptr) return ranks_;
  return data_parallel_ != nullptr ? &data_parallel_->ranks() : nullptr;
}

void RankedSteps::wait_for(const std::function<void()>& device) const {
  parallel::Communicator* ranks = connected();
  if (ranks == nullptr) return device();
  {
    const parallel::RankLink::DeviceWait waits(ranks->link());
    device();
  }
  ranks->check();
}

void RankedSteps::stop() noexcept {
  if (!leader_) return;
  try {
    leader_->stop();
    // NOLINTNEXTLINE(bugprone-empty-catch): there is nothing else to do
  } catch (const std::exception&) {
    // The loss of a rank was already reported where it was noticed.
  }
}

}  // namespace reprise::runner
