#pragma once

#include <string_view>

#include "reprise/base/json.h"

namespace reprise::config {

/// \throws InvalidArgument: the type of `got` is not the one that `field` expects
[[noreturn]] void throw_wrong_type(std::string_view field,
                                   std::string_view expected,
                                   const Json& got);

}  // namespace reprise::config
