#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::server {

/// "%2F" becomes "/". An invalid escape stays unchanged: no route or parameter has such a name.
[[nodiscard]] std::string percent_decode(std::string_view text);

/// All values of `name` in "level=1&tags=a&tags=b", in order, with the escapes of forms decoded.
[[nodiscard]] std::vector<std::string> query_values(std::string_view query, std::string_view name);

/// The names in the query that are not in `known`, as the client sent them but shortened; at most
/// `most`.
[[nodiscard]] std::vector<std::string> unknown_names(std::string_view query,
                                                     std::span<const std::string_view> known,
                                                     size_t most);

}  // namespace reprise::server
