#pragma once

#include <span>
#include <string>
#include <string_view>

namespace reprise {

/// The candidate closest to `name` by edit distance (case and '-'/'_' ignored), or an empty view
/// when nothing is close enough to be a likely typing mistake. The view points into `candidates`.
[[nodiscard]] std::string_view nearest_name(std::string_view name,
                                            std::span<const std::string_view> candidates);

/// "; did you mean 'x'?" or an empty string: the tail of every unknown-name error.
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       std::span<const std::string_view> candidates);

}  // namespace reprise
