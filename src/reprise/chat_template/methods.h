#pragma once

#include <optional>
#include <string_view>

#include "reprise/chat_template/sandbox.h"

namespace reprise::chat_template {

/// Finds the attribute `object.name` by Python's rules: a method of str, list, tuple or dict, or an
/// attribute of a namespace or of `loop`. Methods that would change their object, and anything
/// whose name starts with an underscore, are undefined, as in jinja2's immutable sandbox. nullopt:
/// no such attribute.
[[nodiscard]] std::optional<Value> find_attribute(Sandbox& sandbox,
                                                  const Value& object,
                                                  std::string_view name);

}  // namespace reprise::chat_template
