#include "reprise/speculative/draft_schedule.h"

#include <algorithm>
#include <cstddef>

namespace reprise::speculative {

std::vector<int> drafts_by_batch_size(const DraftSchedule& schedule, int32_t max_num_seqs) {
  if (schedule.empty()) return {};
  std::vector<int> drafts(static_cast<size_t>(max_num_seqs) + 1, 0);
  for (const DraftRange& range : schedule) {
    const auto first = static_cast<size_t>(std::min(range.first, max_num_seqs + 1));
    std::fill(drafts.begin() + static_cast<std::ptrdiff_t>(first), drafts.end(), range.num_drafts);
  }
  return drafts;
}

std::vector<int32_t> scheduled_drafts(const DraftSchedule& schedule) {
  std::vector<int32_t> counts;
  for (const DraftRange& range : schedule) counts.push_back(range.num_drafts);
  std::ranges::sort(counts);
  const auto repeated = std::ranges::unique(counts);
  counts.erase(repeated.begin(), repeated.end());
  return counts;
}

}  // namespace reprise::speculative
