#pragma once

#include <string_view>

#include "reprise/base/json.h"

/// Changes to the JSON of a compilation configuration before parse_compilation_config() reads it.
namespace reprise::config {

/// Folds one `-cc.<path>=<value>` argument into `document` before it is parsed:
/// "cudagraph_mode=FULL", "pass_config.enable_sp=true", "custom_ops+=+rms_norm,-silu_and_mul". The
/// value is JSON when it reads as JSON, text otherwise; a path that ends in '+' appends to a list.
/// A later assignment wins. \throws InvalidArgument
void assign_compilation_field(Json& document, std::string_view assignment);

/// Merges `overrides` into `document`; objects are merged member by member, other values replaced.
void merge_compilation_json(Json& document, const Json& overrides);

}  // namespace reprise::config
