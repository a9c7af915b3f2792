#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/cudagraph/cudagraph_dispatcher.h"

namespace reprise::cudagraph {

/// Counts the decisions of all steps: by mode, by reason, by graph, and by number of tokens before
/// padding. The counts explain later why batches did not use a graph. record() does not allocate.
class DispatchLedger {
 public:
  /// `max_num_tokens` is the largest number of tokens in a batch.
  explicit DispatchLedger(int32_t max_num_tokens);

  void record(const BatchFacts& facts, const Decision& decision) noexcept;
  void reset() noexcept;

  [[nodiscard]] uint64_t steps(CudagraphRuntimeMode mode) const noexcept {
    return by_mode_[static_cast<size_t>(mode)];
  }
  [[nodiscard]] uint64_t steps(DispatchReason reason) const noexcept {
    return by_reason_[static_cast<size_t>(reason)];
  }
  /// Tokens that were computed only because of padding.
  [[nodiscard]] uint64_t padding_tokens() const noexcept { return padding_tokens_; }

  /// How often one graph was chosen for one reason. Eager steps have an empty descriptor, so all
  /// eager steps with the same reason share one entry.
  struct DecisionCount {
    CudagraphRuntimeMode mode = CudagraphRuntimeMode::NONE;
    BatchDescriptor descriptor;
    DispatchReason reason = DispatchReason::not_initialised;
    uint64_t count = 0;
  };
  /// The distinct decisions in the order of their first use. Valid until the next record(). There
  /// are at most kMaxDecisions, far more than any capture plan needs; decisions beyond that are
  /// counted by mode and reason only.
  [[nodiscard]] std::span<const DecisionCount> decisions() const noexcept { return decisions_; }
  static constexpr size_t kMaxDecisions = 2048;

  /// One line of vLLM's --cudagraph-metrics table.
  struct Row {
    int32_t unpadded_tokens = 0;
    int32_t padded_tokens = 0;
    CudagraphRuntimeMode mode = CudagraphRuntimeMode::NONE;
    uint64_t count = 0;
  };
  /// The distinct rows, most frequent first.
  [[nodiscard]] std::vector<Row> rows() const;

 private:
  void count_decision(const Decision& decision) noexcept;

  std::array<uint64_t, 3> by_mode_{};
  std::array<uint64_t, kNumDispatchReasons> by_reason_{};
  uint64_t padding_tokens_ = 0;
  // Index: tokens before padding * 3 + mode. Each cell has the last padded size for these tokens,
  // and the count.
  struct Cell {
    int32_t padded_tokens = 0;
    uint64_t count = 0;
  };
  std::vector<Cell> cells_;
  std::vector<DecisionCount> decisions_;  // kMaxDecisions entries are reserved at the start
  // Hash table with open addressing: index into decisions_, -1 = free.
  std::vector<int16_t> decision_slots_;
};

}  // namespace reprise::cudagraph
