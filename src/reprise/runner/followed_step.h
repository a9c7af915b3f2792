#pragma once

#include "reprise/runner/model_step.h"
#include "reprise/runner/step_result.h"
#include "reprise/speculative/drafter.h"

namespace reprise::speculative {

/// A step of the main model that a drafter follows. The sampled tokens are in their placeholders,
/// and no later step has run. Borrowed for the call.
struct FollowedStep {
  const runner::ModelStep& step;
  const runner::StepResult& result;
};

}  // namespace reprise::speculative
