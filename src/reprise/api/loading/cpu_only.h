#pragma once

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/resolved_options.h"

namespace reprise::api {

/// Refuses options and models that only the CPU has kernels for. Called when the engine's device is
/// a GPU. \throws InvalidArgument that names the option or the model, and what to do
void refuse_what_needs_the_cpu(const EngineArgs& args, const ResolvedOptions& options);

}  // namespace reprise::api
