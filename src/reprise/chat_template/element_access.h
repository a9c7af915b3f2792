#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "reprise/chat_template/sandbox.h"

/// Items, elements, attributes and slices of values, found by the rules of Python and jinja2.
namespace reprise::chat_template {

/// The items of an iterable. The items of a text are its code points. A generator has no items
/// after this call.
[[nodiscard]] std::vector<Value> iterate(Sandbox& sandbox, const Value& value);
[[nodiscard]] bool is_iterable(const Value& value);
/// Python's len(), or nullopt for a value that has no length.
[[nodiscard]] std::optional<int64_t> length_of(const Value& value);

/// `object[key]` by jinja2's rule: the element; if there is none, the attribute; else undefined.
[[nodiscard]] Value subscript(Sandbox& sandbox, const Value& object, const Value& key);
/// `object.name` by jinja2's rule: the attribute; if there is none, the element; else undefined.
[[nodiscard]] Value attribute(Sandbox& sandbox, const Value& object, std::string_view name);
/// `object[start:stop:step]`; an omitted part is passed as none.
[[nodiscard]] Value slice(Sandbox& sandbox,
                          const Value& object,
                          const Value& start,
                          const Value& stop,
                          const Value& step);

}  // namespace reprise::chat_template
