#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "reprise/chat_template/sandbox.h"

/// Python's operators over values, with its errors.
namespace reprise::chat_template {

enum class BinaryOp { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

[[nodiscard]] Value binary(Sandbox& sandbox, BinaryOp op, const Value& left, const Value& right);
[[nodiscard]] Value negate(Sandbox& sandbox, const Value& operand);
/// Unary plus.
[[nodiscard]] Value posit(Sandbox& sandbox, const Value& operand);
[[nodiscard]] bool compare(Sandbox& sandbox,
                           Comparison comparison,
                           const Value& left,
                           const Value& right);
[[nodiscard]] bool contains(Sandbox& sandbox, const Value& container, const Value& item);

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

/// Throws the message of `value` if it is undefined.
void require_defined(const Sandbox& sandbox, const Value& value);
/// The text of `value`; throws what Python's "expected str" would.
[[nodiscard]] const Text& require_text(const Sandbox& sandbox,
                                       const Value& value,
                                       std::string_view what);
[[nodiscard]] int64_t require_integer(const Sandbox& sandbox,
                                      const Value& value,
                                      std::string_view what);

}  // namespace reprise::chat_template
