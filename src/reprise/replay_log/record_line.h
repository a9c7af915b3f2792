#pragma once

#include <string>
#include <string_view>

#include "reprise/base/json.h"

namespace reprise::replay_log {

/// The object as one line, which begins with a checksum of the rest and ends with a line end.
[[nodiscard]] std::string record_line(const Json& object);

/// The object of a line, given without its line end.
/// \throws InvalidArgument that says in which way the line is damaged
[[nodiscard]] Json read_record_line(std::string_view line);

}  // namespace reprise::replay_log
