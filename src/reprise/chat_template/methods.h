#pragma once

#include <optional>
#include <string_view>

#include "reprise/chat_template/sandbox.h"

namespace reprise::chat_template {

/// Finds the attribute `object.name` by Python's rules: a method of str, list, tuple or dict, or an
/// attribute of a namespace or of `loop`. As in jinja2's immutable sandbox, a method that would
/// change its object and a name that starts with an underscore are undefined. nullopt: there is no
/// such attribute.
[[nodiscard]] std::optional<Value> find_attribute(Sandbox& sandbox,
                                                  const Value& object,
                                                  std::string_view name);

}  // namespace reprise::chat_template
