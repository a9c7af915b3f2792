#pragma once

#include <string>
#include <string_view>

#include "reprise/base/json.h"

namespace reprise::weights {

/// The text of a configuration file as if it said what `overrides`, an object, says: members
/// replace those of the same name, objects are merged, null takes a member out (RFC 7396).
/// `path` only names the file in errors. \throws FileError E_CONFIG
[[nodiscard]] std::string override_config(std::string_view text,
                                          std::string_view path,
                                          const Json& overrides);

}  // namespace reprise::weights
