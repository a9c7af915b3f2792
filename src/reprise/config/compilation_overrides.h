#pragma once

#include <string_view>

#include "reprise/base/json.h"

/// Changes the JSON of a compilation configuration, before parse_compilation_config() reads it.
namespace reprise::config {

/// Writes one `-cc.<path>=<value>` argument into `document`, for example "cudagraph_mode=FULL",
/// "pass_config.enable_sp=true" or "custom_ops+=+rms_norm,-silu_and_mul". A value that is valid
/// JSON is read as JSON, any other value is a text. If the path ends in '+', the value is appended
/// to a list. Later assignments overwrite earlier ones. \throws InvalidArgument
void assign_compilation_field(Json& document, std::string_view assignment);

/// Merges `overrides` into `document`. Objects are merged member by member; other values are
/// replaced.
void merge_compilation_json(Json& document, const Json& overrides);

}  // namespace reprise::config
