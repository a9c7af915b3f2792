#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reprise/api/engine_args.h"
#include "reprise/weights/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::api {

/// The weights that `args` select: the model folder's files, or random values. Appends warnings
/// about the files to `warnings`. \throws FileError
[[nodiscard]] std::unique_ptr<weights::WeightSource> open_weights(
    const EngineArgs& args, const weights::ModelConfig& config, std::vector<std::string>& warnings);

}  // namespace reprise::api
