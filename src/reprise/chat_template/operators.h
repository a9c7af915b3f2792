#pragma once

#include <string_view>

#include "reprise/chat_template/sandbox.h"

/// Python's operators over values, with Python's errors.
namespace reprise::chat_template {

// Tables of symbols in operators.cpp have the order of these enumerators.
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

/// Throws the message of `value` when the value is undefined.
void require_defined(const Sandbox& sandbox, const Value& value);
/// The text of `value`; throws an error like Python's when the value is no text. `what` names the
/// value in the message.
[[nodiscard]] const Text& require_text(const Sandbox& sandbox,
                                       const Value& value,
                                       std::string_view what);
[[nodiscard]] int64_t require_integer(const Sandbox& sandbox,
                                      const Value& value,
                                      std::string_view what);

}  // namespace reprise::chat_template
