#pragma once

#include <memory>
#include <vector>

#include "reprise/kv_cache/tensors/state_cache_tensors.h"
#include "reprise/models/causal_lm.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/model_runner_options.h"
#include "reprise/runner/step_attention.h"
#include "reprise/runner/step_part.h"

namespace reprise::runner {

/// The parts that the steps of a model need, in the order in which they are staged. They borrow
/// everything.
[[nodiscard]] std::vector<std::unique_ptr<StepPart>> make_step_parts(
    const ModelRunnerOptions& options,
    models::CausalLM& model,
    kv_cache::StateCacheTensors& states,
    StepAttention& attention,
    Execution& execution);

}  // namespace reprise::runner
