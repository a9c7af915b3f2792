#include "reprise/cudagraph/dispatch_ledger.h"

#include <algorithm>

namespace reprise::cudagraph {
namespace {
constexpr size_t kNumModes = 3;
}

DispatchLedger::DispatchLedger(int32_t max_num_tokens)
    : cells_((static_cast<size_t>(max_num_tokens) + 1) * kNumModes) {}

void DispatchLedger::record(const BatchFacts& facts, const Decision& decision) noexcept {
  const auto mode = static_cast<size_t>(decision.mode);
  ++by_mode_[mode];
  ++by_reason_[static_cast<size_t>(decision.reason)];
  padding_tokens_ += static_cast<uint64_t>(decision.descriptor.num_tokens - facts.num_tokens);
  const size_t cell = static_cast<size_t>(facts.num_tokens) * kNumModes + mode;
  if (cell >= cells_.size()) return;
  cells_[cell].padded_tokens = decision.descriptor.num_tokens;
  ++cells_[cell].count;
}

void DispatchLedger::reset() noexcept {
  by_mode_.fill(0);
  by_reason_.fill(0);
  padding_tokens_ = 0;
  std::fill(cells_.begin(), cells_.end(), Cell{});
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
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.count > b.count; });
  return rows;
}

}  // namespace reprise::cudagraph
