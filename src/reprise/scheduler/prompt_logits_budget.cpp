#include "reprise/scheduler/prompt_logits_budget.h"

#include <algorithm>

#include "reprise/scheduler/step_entry.h"

namespace reprise::scheduler {

int PromptLogitsBudget::limit(const Request& request, int num_tokens) const noexcept {
  // Rows of logits that were scheduled before a preemption are not scheduled again after it.
  const int num_computed = request.num_computed_tokens();
  const int first = std::max(num_computed, request.state().num_prompt_logits_scheduled);
  if (request.num_prompt_logits() - first <= num_left_) return num_tokens;
  return std::min(num_tokens, first + num_left_ - num_computed);
}

void PromptLogitsBudget::schedule(Request& request, StepEntry& entry) noexcept {
  int& num_scheduled = request.state().num_prompt_logits_scheduled;
  const int first = std::max(entry.num_computed_tokens, num_scheduled);
  const int end = std::min(entry.end(), request.num_prompt_logits());
  if (first >= end) return;
  entry.first_prompt_logit = first - entry.num_computed_tokens;
  entry.num_prompt_logits = end - first;
  num_scheduled = end;
  num_left_ -= entry.num_prompt_logits;
}

}  // namespace reprise::scheduler
