#pragma once

#include <optional>

#include "reprise/api/options/engine_args.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/sources/quantizing_weights.h"

namespace reprise::api {

/// How the weights of this model are quantised while they are loaded. Unset: they stay as they are
/// stored. \throws InvalidArgument for a method that does not fit the checkpoint
[[nodiscard]] std::optional<weights::LoadQuantization> load_quantization(
    const EngineArgs& args, const weights::ModelConfig& config);

/// The same before the checkpoint is known. fp8 is left out: it may also be the format in which the
/// checkpoint is stored.
[[nodiscard]] bool quantizes_while_loading(const EngineArgs& args);

}  // namespace reprise::api
