#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/weights/sources/watched_weights.h"
#include "reprise/weights/weight_source.h"

namespace reprise::api {

/// The weights that `args` select for this rank of a model, or for a draft head: the model's files
/// or made-up values, quantised if `args` ask for it. Sets tie_word_embeddings of `options` to what
/// the checkpoint has. `on_read` may be empty.
/// \throws InvalidArgument; FileError for a tensor that is missing or misshapen
[[nodiscard]] std::unique_ptr<weights::WeightSource> open_engine_weights(
    const EngineArgs& args,
    ResolvedOptions& options,
    std::vector<std::string>& warnings,
    weights::WatchedWeights::OnRead on_read = {});

}  // namespace reprise::api
