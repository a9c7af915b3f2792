#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reprise/api/options/engine_args.h"
#include "reprise/config/resolution.h"

/// The decisions of a start about graphs, made without weights and without a device.
namespace reprise::api {

/// How one model will use graphs: what the decision depends on, and the decision.
struct GraphPlan {
  config::ResolutionInputs inputs;
  config::ResolvedConfig resolved;
};

struct EnginePlan {
  GraphPlan main;
  std::optional<GraphPlan> draft;     // of the draft model or draft head
  std::vector<std::string> warnings;  // those of the start, with those of main.resolved
  std::string attention_kernels;      // of a GPU; empty if the arguments exclude it
};

/// What load_engine() decides for these arguments, by the same code. Reads the model's
/// configuration files, or the header of its GGUF file. Several ranks need not be there.
/// \throws as load_engine() for options and configuration files
[[nodiscard]] EnginePlan plan_engine(const EngineArgs& args);

/// The inputs for a model about which nothing is known: all its layers use the backend that the
/// arguments name. Ignores EngineArgs::model. Adds warnings about the compilation config.
/// \throws InvalidArgument for bad options
[[nodiscard]] config::ResolutionInputs graph_inputs_without_model(
    const EngineArgs& args, std::vector<std::string>& warnings);

}  // namespace reprise::api
