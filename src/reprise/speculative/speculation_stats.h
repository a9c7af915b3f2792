#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::speculative {

/// Counts since the start. Names and meaning are vLLM's.
struct SpeculationStats {
  uint64_t num_drafts = 0;           // runs of draft tokens: one per request and step with drafts
  uint64_t num_draft_tokens = 0;     // without padding
  uint64_t num_accepted_tokens = 0;  // of these
  /// [i]: how often the draft token at position i of a run was accepted. As long as the longest
  /// run that the options allow; empty without speculation.
  std::vector<uint64_t> num_accepted_tokens_per_pos;

  SpeculationStats() = default;
  explicit SpeculationStats(int num_speculative_tokens)
      : num_accepted_tokens_per_pos(static_cast<size_t>(num_speculative_tokens)) {}

  /// \pre num_accepted <= num_draft_tokens <= the longest run
  void observe(int num_draft_tokens_of_run, int num_accepted) noexcept;
  [[nodiscard]] bool is_enabled() const noexcept { return !num_accepted_tokens_per_pos.empty(); }
  /// The counts since `earlier`.
  [[nodiscard]] SpeculationStats since(const SpeculationStats& earlier) const;
  /// Tokens per step of a request with drafts: its accepted drafts and the model's own token. 0 if
  /// there was no draft.
  [[nodiscard]] double mean_acceptance_length() const noexcept;

  friend bool operator==(const SpeculationStats&, const SpeculationStats&) = default;
};

}  // namespace reprise::speculative
