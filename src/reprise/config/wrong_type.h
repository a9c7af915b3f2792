#pragma once

#include <string_view>

#include "reprise/base/json.h"

namespace reprise::config {

/// \throws InvalidArgument: `field` holds `got`, whose type is not the expected one
[[noreturn]] void throw_wrong_type(std::string_view field,
                                   std::string_view expected,
                                   const Json& got);

}  // namespace reprise::config
