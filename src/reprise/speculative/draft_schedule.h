#pragma once

#include <cstdint>
#include <vector>

namespace reprise::speculative {

/// One row of a schedule: in steps of `first` to `last` requests, each request gets up to
/// `num_drafts` draft tokens.
struct DraftRange {
  int32_t first = 1;
  int32_t last = 1;
  int32_t num_drafts = 0;

  friend bool operator==(const DraftRange&, const DraftRange&) = default;
};

/// How many drafts a request may get, by the number of running requests: with many requests a step
/// is limited by arithmetic, and drafts that fail cost as much as tokens. Source: vLLM's dynamic
/// speculative decoding. A number of requests between two rows, or after the last row, has the
/// drafts of the row before it. Empty: the number does not depend on the batch.
using DraftSchedule = std::vector<DraftRange>;

/// The drafts for each number of running requests up to max_num_seqs; [0] is unused. Empty for an
/// empty schedule. \pre the rows are ascending, do not overlap, and the first begins at 1
[[nodiscard]] std::vector<int> drafts_by_batch_size(const DraftSchedule& schedule,
                                                    int32_t max_num_seqs);

/// The numbers of drafts of a schedule, ascending and distinct.
[[nodiscard]] std::vector<int32_t> scheduled_drafts(const DraftSchedule& schedule);

}  // namespace reprise::speculative
