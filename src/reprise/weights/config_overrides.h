#pragma once

#include <string>
#include <string_view>

#include "reprise/base/json.h"

namespace reprise::weights {

/// Applies `overrides`, an object, to the text of a configuration file: a member replaces the
/// member of the same name, objects are merged, and null removes a member (RFC 7396). `path` only
/// names the file in errors. \throws FileError E_CONFIG
[[nodiscard]] std::string override_config(std::string_view text,
                                          std::string_view path,
                                          const Json& overrides);

}  // namespace reprise::weights
