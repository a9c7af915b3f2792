#pragma once

#include <string_view>

#include "reprise/chat_template/sandbox.h"

/// Python's operators on values, with Python's error messages.
namespace reprise::chat_template {

// The tables of symbols in operators.cpp have the same order as these enumerators.
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

/// Throws the message of `value` if the value is undefined.
void require_defined(const Sandbox& sandbox, const Value& value);
/// The text of `value`. If the value is not a text, throws an error like Python's in which `what`
/// names the value.
[[nodiscard]] const Text& require_text(const Sandbox& sandbox,
                                       const Value& value,
                                       std::string_view what);
[[nodiscard]] int64_t require_integer(const Sandbox& sandbox,
                                      const Value& value,
                                      std::string_view what);

}  // namespace reprise::chat_template
