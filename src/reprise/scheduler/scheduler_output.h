#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/scheduler/step_entry.h"

namespace reprise::scheduler {

/// Puts uniform decodes first. The others follow by their number of tokens: shorter remainders of
/// prompts, then longer prefills. Among equals, requests with computed context come first;
/// otherwise the order is kept.
/// Source: vLLM V2 sort_batch_req_ids. The difference: a prefill chunk of decode_query_len tokens
/// never sorts among the decodes.
void sort_batch(std::span<StepEntry> batch, int decode_query_len);

/// One step's batch. It belongs to the scheduler, which overwrites it after the step's results are
/// applied.
struct SchedulerOutput {
  std::vector<StepEntry> scheduled;  // in batch order
  int total_num_scheduled_tokens = 0;
  int num_padding_tokens = 0;     // see StepEntry; not part of the total
  int num_sampling_requests = 0;  // entries of `scheduled` with `samples`
  int num_sampled_rows = 0;       // rows of logits from which tokens are sampled
  int num_logits = 0;             // rows of logits: the rows that sample, and the rows of prompts
  int max_query_len = 0;          // largest query_len()
  int num_active_loras = 0;       // different adapters of the scheduled requests
  /// The number of tokens at the start of all scheduled requests that are in the same cache blocks
  /// and were computed before this step. Also 0 if the configuration does not ask for this search.
  int common_prefix_len = 0;
  bool any_prefill = false;
  // Requests that this schedule() preempted, so they have lost their blocks.
  std::vector<Request*> preempted;
  /// Requests that have finished (also by abort) and that, since the previous schedule(), are in no
  /// step any more. The receiver drops its data about them; the scheduler no longer uses their
  /// Request objects.
  std::vector<RequestId> finished_request_ids;

  [[nodiscard]] bool empty() const noexcept { return scheduled.empty(); }
  [[nodiscard]] int num_reqs() const noexcept { return static_cast<int>(scheduled.size()); }
};

}  // namespace reprise::scheduler
