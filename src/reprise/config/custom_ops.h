#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::config {

/// Checks the `custom_ops` list: items "all", "none", "+name", "-name"; at most one base mode; no
/// op both enabled and disabled. \throws InvalidArgument
void check_custom_ops(std::span<const std::string> custom_ops);

/// True when the list enables `op`: named with '+', or covered by "all" and not named with '-'.
[[nodiscard]] bool enables_custom_op(std::span<const std::string> custom_ops, std::string_view op);

/// Appends a base mode to a list that has none: "none" when a compiler generates the ops, "all"
/// otherwise.
void append_default_base_mode(std::vector<std::string>& custom_ops, bool compiler_generates_ops);

}  // namespace reprise::config
