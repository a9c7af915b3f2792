#pragma once

#include "reprise/api/options/engine_args.h"

namespace reprise::api {

/// Refuses options that only work on CPUs. Called when the engine's device is a GPU. \throws
/// InvalidArgument that names the option, and what to do
void refuse_what_needs_the_cpu(const EngineArgs& args);

}  // namespace reprise::api
