#include "reprise/cudagraph/dispatch_ledger.h"

#include <algorithm>

namespace reprise::cudagraph {
namespace {
constexpr size_t kNumModes = 3;
// A power of two. At most half of the slots are used, so probing ends after a few slots.
constexpr size_t kNumDecisionSlots = 2 * DispatchLedger::kMaxDecisions;
}  // namespace

DispatchLedger::DispatchLedger(int32_t max_num_tokens)
    : cells_((static_cast<size_t>(max_num_tokens) + 1) * kNumModes),
      decision_slots_(kNumDecisionSlots, -1) {
  decisions_.reserve(kMaxDecisions);
}

void DispatchLedger::record(const BatchFacts& facts, const Decision& decision) noexcept {
  const auto mode = static_cast<size_t>(decision.mode);
  ++by_mode_[mode];
  ++by_reason_[static_cast<size_t>(decision.reason)];
  padding_tokens_ += static_cast<uint64_t>(decision.descriptor.num_tokens - facts.num_tokens);
  count_decision(decision);
  const size_t cell = static_cast<size_t>(facts.num_tokens) * kNumModes + mode;
  if (cell >= cells_.size()) return;
  cells_[cell].padded_tokens = decision.descriptor.num_tokens;
  ++cells_[cell].count;
}

void DispatchLedger::count_decision(const Decision& decision) noexcept {
  const BatchDescriptor descriptor =
      decision.mode == CudagraphRuntimeMode::NONE ? BatchDescriptor{} : decision.descriptor;
  const size_t hash = std::hash<BatchDescriptor>{}(descriptor) +
                      static_cast<size_t>(decision.mode) +
                      kNumModes * static_cast<size_t>(decision.reason);
  for (size_t slot = hash % kNumDecisionSlots;; slot = (slot + 1) % kNumDecisionSlots) {
    const int16_t index = decision_slots_[slot];
    if (index < 0) {
      if (decisions_.size() == kMaxDecisions) return;
      decision_slots_[slot] = static_cast<int16_t>(decisions_.size());
      decisions_.push_back({decision.mode, descriptor, decision.reason, 1});
      return;
    }
    DecisionCount& known = decisions_[static_cast<size_t>(index)];
    if (known.mode == decision.mode && known.reason == decision.reason &&
        known.descriptor == descriptor) {
      ++known.count;
      return;
    }
  }
}

void DispatchLedger::reset() noexcept {
  by_mode_.fill(0);
  by_reason_.fill(0);
  padding_tokens_ = 0;
  std::fill(cells_.begin(), cells_.end(), Cell{});
  decisions_.clear();
  std::fill(decision_slots_.begin(), decision_slots_.end(), int16_t{-1});
}

std::vector<DispatchLedger::Row> DispatchLedger::rows() const {
  std::vector<Row> rows;
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (cells_[i].count == 0) continue;
    rows.push_back({.unpadded_tokens = static_cast<int32_t>(i / kNumModes),
                    .padded_tokens = cells_[i].padded_tokens,
                    .mode = static_cast<CudagraphRuntimeMode>(i % kNumModes),
                    .count = cells_[i].count});
  }
  std::stable_sort(
      rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.count > b.count; });
  return rows;
}

}  // namespace reprise::cudagraph
