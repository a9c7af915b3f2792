#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reprise::server {

/// "%2F" becomes "/". An invalid escape stays unchanged; no route or parameter has such a name.
[[nodiscard]] std::string percent_decode(std::string_view text);

/// All values of `name` in "level=1&tags=a&tags=b", in order, with the escapes of forms decoded.
[[nodiscard]] std::vector<std::string> query_values(std::string_view query, std::string_view name);

}  // namespace reprise::server
