// Rows of logits for log-probabilities of prompts, of which a step has only some.

#include <algorithm>

#include "reprise/scheduler/scheduler.h"

namespace reprise::engine {

bool Scheduler::wants_prompt_logits(const Request& request) {
  return request.num_prompt_logits_scheduled_ < request.num_prompt_logits();
}

/// Whether the request's next token needs a row of logits and the step has none left.
bool Scheduler::waits_for_prompt_logits(const Request& request) const {
  return prompt_logits_budget_ == 0 && wants_prompt_logits(request) &&
         request.num_prompt_logits_scheduled_ == 0;
}

int Scheduler::limit_to_prompt_logits(const Request& request, int num_tokens) const {
  // Rows of logits that were scheduled before a preemption are not scheduled again after it.
  const int first = std::max(request.num_computed_tokens_, request.num_prompt_logits_scheduled_);
  if (request.num_prompt_logits() - first <= prompt_logits_budget_) return num_tokens;
  return std::min(num_tokens, first + prompt_logits_budget_ - request.num_computed_tokens_);
}

void Scheduler::schedule_prompt_logits(Request& request, ScheduledRequest& entry) {
  const int first = std::max(entry.num_computed_tokens, request.num_prompt_logits_scheduled_);
  const int end =
      std::min(entry.num_computed_tokens + entry.num_scheduled_tokens, request.num_prompt_logits());
  if (first >= end) return;
  entry.first_prompt_logit = first - entry.num_computed_tokens;
  entry.num_prompt_logits = end - first;
  request.num_prompt_logits_scheduled_ = end;
  prompt_logits_budget_ -= entry.num_prompt_logits;
}

}  // namespace reprise::engine
