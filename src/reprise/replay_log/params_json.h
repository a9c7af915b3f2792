#pragma once

#include "reprise/base/json.h"
#include "reprise/sampling/sampling_params.h"

namespace reprise::replay_log {

/// The parameters that differ from SamplingParams{}, under the names of its members.
[[nodiscard]] Json params_to_json(const sampling::SamplingParams& params);
/// \throws Json::exception for a wrong type, InvalidArgument for an unknown name
[[nodiscard]] sampling::SamplingParams params_from_json(const Json& json);

}  // namespace reprise::replay_log
