#pragma once

#include <optional>
#include <string>

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/kernels/accelerator.h"

namespace reprise::api {

/// Whether a GPU may run the attention kernels of a library (FlashInfer) in the place of Reprise's
/// own. The backend decides: auto and FLASHINFER; those for prompts must be asked for.
[[nodiscard]] kernels::AttentionSource attention_source(const EngineArgs& args);

/// Whose attention kernels a GPU runs for this model, and why. `has_library`: the plug-in has those
/// of FlashInfer; nullopt: this is not known.
[[nodiscard]] std::string attention_kernels_text(const EngineArgs& args,
                                                 const ResolvedOptions& options,
                                                 std::optional<bool> has_library);

}  // namespace reprise::api
