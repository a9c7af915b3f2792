#pragma once

#include "reprise/scheduler/request.h"

namespace reprise::scheduler {

struct StepEntry;

/// Rows of logits for the log-probabilities of prompts. A step has only a limited number; requests
/// get them in the order of their rank.
class PromptLogitsBudget {
 public:
  /// Begins a step with this many rows.
  void begin_step(int num_rows) noexcept { num_left_ = num_rows; }

  /// Whether log-probabilities of the request's prompt are not computed yet.
  [[nodiscard]] static bool wants_rows(const Request& request) noexcept {
    return request.state().num_prompt_logits_scheduled < request.num_prompt_logits();
  }
  /// Whether the request's next token needs a row of logits and the step has none left.
  [[nodiscard]] bool must_wait(const Request& request) const noexcept {
    return num_left_ == 0 && wants_rows(request) &&
           request.state().num_prompt_logits_scheduled == 0;
  }
  /// How many of the next `num_tokens` tokens of the request have the rows that they need.
  [[nodiscard]] int limit(const Request& request, int num_tokens) const noexcept;
  /// Gives the request the rows for its part of the step.
  void schedule(Request& request, StepEntry& entry) noexcept;

 private:
  int num_left_ = 0;
};

}  // namespace reprise::scheduler
