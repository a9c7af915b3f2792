#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::config {

/// Checks the `custom_ops` list. Its items are "+name", "-name" and the base modes "all" and
/// "none". It may have only one base mode, and no op may be both enabled and disabled.
/// \throws InvalidArgument
void check_custom_ops(std::span<const std::string> custom_ops);

/// Whether the list enables `op`: by "+op", or by "all" without "-op".
[[nodiscard]] bool enables_custom_op(std::span<const std::string> custom_ops, std::string_view op);

/// Appends a base mode to a list that has none: "none" if a compiler generates code for the ops,
/// otherwise "all".
void append_default_base_mode(std::vector<std::string>& custom_ops, bool compiler_generates_ops);

}  // namespace reprise::config
