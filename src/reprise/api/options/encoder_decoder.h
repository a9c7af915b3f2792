#pragma once

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/resolved_options.h"

namespace reprise::api {

/// \throws InvalidArgument for an option that has no meaning, or no code, for a model with an
/// encoder and a decoder. Does nothing for other models.
void check_encoder_decoder(const EngineArgs& args, const ResolvedOptions& options);

}  // namespace reprise::api
