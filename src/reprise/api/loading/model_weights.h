#pragma once

#include <memory>

#include "reprise/api/loading/engine_device.h"
#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/api/options/startup_report.h"
#include "reprise/lora/adapter_registry.h"
#include "reprise/models/causal_lm.h"
#include "reprise/runner/expert_counts.h"

/// The stages of a start that read weights and adapters.
namespace reprise::api {

/// A model with its weights, and the memory of its layers for adapters and counts of experts.
struct ModelWeights {
  // Each member borrows from the members above it.
  std::unique_ptr<models::Parameters> parameters;
  std::unique_ptr<lora::AdapterSlots> adapter_slots;    // nullptr without EngineArgs::enable_lora
  std::unique_ptr<runner::ExpertCounts> expert_counts;  // nullptr: nothing is counted
  std::unique_ptr<models::CausalLM> model;
};

/// Reads the weights that `args` select and makes the model. `options.config` learns which weights
/// the checkpoint ties, `args.extensions` the op that counts the tokens of experts. `target`: of a
/// draft head, the model that it drafts for; else nullptr. Fills in what the report says of
/// weights.
/// \throws FileError, InvalidArgument, OutOfMemory
[[nodiscard]] ModelWeights load_model_weights(EngineArgs& args,
                                              ResolvedOptions& options,
                                              EngineDevice& device,
                                              const models::CausalLM* target,
                                              const StartupObserver& observer,
                                              StartupReport& report);

/// Reads the adapters of --lora-modules. \pre args.enable_lora \throws InvalidArgument, FileError
[[nodiscard]] std::unique_ptr<lora::AdapterRegistry> load_adapters(const EngineArgs& args,
                                                                   const ResolvedOptions& options,
                                                                   lora::AdapterSlots& slots);

}  // namespace reprise::api
