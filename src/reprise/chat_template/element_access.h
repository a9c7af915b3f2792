#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "reprise/chat_template/sandbox.h"

/// Items, elements, attributes and slices of values, as Python and jinja2 find them.
namespace reprise::chat_template {

/// The items of an iterable (a text's are its code points; a generator's are used up).
[[nodiscard]] std::vector<Value> iterate(Sandbox& sandbox, const Value& value);
[[nodiscard]] bool is_iterable(const Value& value);
/// len(); nullopt for what has none.
[[nodiscard]] std::optional<int64_t> length_of(const Value& value);

/// `object[key]` as jinja2 does it: the element, else the attribute, else undefined.
[[nodiscard]] Value subscript(Sandbox& sandbox, const Value& object, const Value& key);
/// `object.name` as jinja2 does it: the attribute, else the element, else undefined.
[[nodiscard]] Value attribute(Sandbox& sandbox, const Value& object, std::string_view name);
/// `object[start:stop:step]`; none where left out.
[[nodiscard]] Value slice(Sandbox& sandbox,
                          const Value& object,
                          const Value& start,
                          const Value& stop,
                          const Value& step);

}  // namespace reprise::chat_template
