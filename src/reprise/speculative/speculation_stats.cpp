#include "reprise/speculative/speculation_stats.h"

#include <cstddef>

#include "reprise/base/assert.h"

namespace reprise::speculative {

void SpeculationStats::observe(int num_draft_tokens_of_run, int num_accepted) noexcept {
  REPRISE_ASSERT(num_accepted <= num_draft_tokens_of_run &&
                     static_cast<size_t>(num_accepted) <= num_accepted_tokens_per_pos.size(),
                 "{} of {} drafts accepted",
                 num_accepted,
                 num_draft_tokens_of_run);
  ++num_drafts;
  num_draft_tokens += static_cast<uint64_t>(num_draft_tokens_of_run);
  num_accepted_tokens += static_cast<uint64_t>(num_accepted);
  for (int i = 0; i < num_accepted; ++i) ++num_accepted_tokens_per_pos[static_cast<size_t>(i)];
}

SpeculationStats SpeculationStats::since(const SpeculationStats& earlier) const {
  SpeculationStats difference = *this;
  difference.num_drafts -= earlier.num_drafts;
  difference.num_draft_tokens -= earlier.num_draft_tokens;
  difference.num_accepted_tokens -= earlier.num_accepted_tokens;
  for (size_t i = 0; i < earlier.num_accepted_tokens_per_pos.size(); ++i) {
    difference.num_accepted_tokens_per_pos[i] -= earlier.num_accepted_tokens_per_pos[i];
  }
  return difference;
}

double SpeculationStats::mean_acceptance_length() const noexcept {
  if (num_drafts == 0) return 0;
  return 1 + static_cast<double>(num_accepted_tokens) / static_cast<double>(num_drafts);
}

}  // namespace reprise::speculative
