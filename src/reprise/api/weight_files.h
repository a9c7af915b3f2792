#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reprise/api/engine_args.h"
#include "reprise/api/resolved_options.h"
#include "reprise/weights/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::api {

/// Whether `args` ask for weights that are quantised while they are loaded. fp8 is left out: it may
/// also be the format in which the checkpoint is stored.
[[nodiscard]] bool quantizes_while_loading(const EngineArgs& args);
/// The same with fp8. \throws InvalidArgument for a method that does not fit the checkpoint
[[nodiscard]] bool quantizes_while_loading(const EngineArgs& args,
                                           const weights::ModelConfig& config);

/// The weights that `args` select for a model or a draft head, under the names that its code loads:
/// the model's files, or random values, quantised if `args` ask for it. Sets tie_word_embeddings of
/// `options` to what the checkpoint has. Adds warnings about the files and about tensors that are
/// not used.
/// \throws InvalidArgument; FileError for a tensor that is missing or misshapen
[[nodiscard]] std::unique_ptr<weights::WeightSource> open_verified_weights(
    const EngineArgs& args, ResolvedOptions& options, std::vector<std::string>& warnings);

}  // namespace reprise::api
