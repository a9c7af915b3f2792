#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reprise::server {

/// "%2F" becomes "/". What is no escape stays as it is: nothing will have that name.
[[nodiscard]] std::string percent_decode(std::string_view text);

/// Every value that "level=1&tags=a&tags=b" gives a name, in order, decoded as forms are.
[[nodiscard]] std::vector<std::string> query_values(std::string_view query, std::string_view name);

}  // namespace reprise::server
