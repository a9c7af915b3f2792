#include "reprise/chat_template/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reprise/chat_template/element_access.h"
#include "reprise/chat_template/percent_format.h"
#include "reprise/chat_template/python_text.h"
#include "reprise/chat_template/unicode.h"

namespace reprise::chat_template {

void require_defined(const Sandbox& sandbox, const Value& value) {
  if (const Undefined* undefined = value.undefined()) sandbox.fail(*undefined->message);
}

const Text& require_text(const Sandbox& sandbox, const Value& value, std::string_view what) {
  require_defined(sandbox, value);
  if (const Text* text = value.text()) return *text;
  sandbox.fail(fmt::format("{} must be str, not {}", what, type_name(value)));
}

int64_t require_integer(const Sandbox& sandbox, const Value& value, std::string_view what) {
  require_defined(sandbox, value);
  if (const auto integer = value.as_integer()) return *integer;
  sandbox.fail(fmt::format("{} must be int, not {}", what, type_name(value)));
}

namespace {

std::string_view symbol(BinaryOp op) {
  static constexpr std::array<std::string_view, 7> kSymbols = {"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<size_t>(op)];
}

[[noreturn]] void fail_overflow(const Sandbox& sandbox) {
  sandbox.fail("integer result does not fit into 64 bits");
}

Value integer_power(Sandbox& sandbox, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) sandbox.fail("0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      fail_overflow(sandbox);
    }
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) fail_overflow(sandbox);
  }
  return Value(result);
}

Value integer_binary(Sandbox& sandbox, BinaryOp op, int64_t left, int64_t right) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::add:
      if (__builtin_add_overflow(left, right, &result)) fail_overflow(sandbox);
      return Value(result);
    case BinaryOp::subtract:
      if (__builtin_sub_overflow(left, right, &result)) fail_overflow(sandbox);
      return Value(result);
    case BinaryOp::multiply:
      if (__builtin_mul_overflow(left, right, &result)) fail_overflow(sandbox);
      return Value(result);
    case BinaryOp::power:
      return integer_power(sandbox, left, right);
    case BinaryOp::divide:
      if (right == 0) sandbox.fail("division by zero");
      return Value(static_cast<double>(left) / static_cast<double>(right));
    case BinaryOp::floor_divide:
    case BinaryOp::modulo:
      break;
  }
  if (right == 0) sandbox.fail("integer division or modulo by zero");
  if (right == -1) {  // the CPU traps on INT64_MIN / -1
    if (op == BinaryOp::modulo) return Value(int64_t{0});
    if (__builtin_sub_overflow(int64_t{0}, left, &result)) fail_overflow(sandbox);
    return Value(result);
  }
  int64_t quotient = left / right;
  int64_t remainder = left % right;
  if (remainder != 0 && (remainder < 0) != (right < 0)) {
    --quotient;
    remainder += right;
  }
  return Value(op == BinaryOp::modulo ? remainder : quotient);
}

// Source: float_divmod of CPython's Objects/floatobject.c.
void float_divmod(double left, double right, double& floor_quotient, double& modulo) {
  modulo = std::fmod(left, right);
  double quotient = (left - modulo) / right;
  if (modulo != 0.0) {
    if ((right < 0) != (modulo < 0)) {
      modulo += right;
      quotient -= 1.0;
    }
  } else {
    modulo = std::copysign(0.0, right);
  }
  if (quotient != 0.0) {
    floor_quotient = std::floor(quotient);
    if (quotient - floor_quotient > 0.5) floor_quotient += 1.0;
  } else {
    floor_quotient = std::copysign(0.0, left / right);
  }
}

Value float_binary(Sandbox& sandbox, BinaryOp op, double left, double right) {
  switch (op) {
    case BinaryOp::add:
      return Value(left + right);
    case BinaryOp::subtract:
      return Value(left - right);
    case BinaryOp::multiply:
      return Value(left * right);
    case BinaryOp::power: {
      if (left == 0.0 && right < 0) sandbox.fail("0.0 cannot be raised to a negative power");
      const double result = std::pow(left, right);
      if (std::isnan(result) && !std::isnan(left) && !std::isnan(right)) {
        sandbox.fail("complex numbers are not supported");
      }
      if (std::isinf(result) && std::isfinite(left) && std::isfinite(right)) {
        sandbox.fail("Numerical result out of range");
      }
      return Value(result);
    }
    case BinaryOp::divide:
      if (right == 0.0) sandbox.fail("float division by zero");
      return Value(left / right);
    case BinaryOp::floor_divide:
    case BinaryOp::modulo:
      break;
  }
  if (right == 0.0) sandbox.fail("float divmod()");
  double quotient = 0;
  double modulo = 0;
  float_divmod(left, right, quotient, modulo);
  return Value(op == BinaryOp::modulo ? modulo : quotient);
}

Value add_texts(Sandbox& sandbox, const Text& left, const Text& right) {
  sandbox.check_text_size(left.bytes.size() + right.bytes.size());
  const bool is_markup = left.is_markup || right.is_markup;
  const auto part = [&](const Text& text) {
    return is_markup && !text.is_markup ? escape_html(text.bytes) : text.bytes;
  };
  return sandbox.text(part(left) + part(right), is_markup);
}

bool is_list_or_tuple(const Value& value) {
  const Sequence* sequence = value.sequence();
  return sequence != nullptr && sequence->flavor <= Sequence::Flavor::tuple;
}

Value add_sequences(Sandbox& sandbox, const Sequence& left, const Sequence& right) {
  sandbox.check_item_count(left.items.size() + right.items.size());
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return sandbox.sequence({.items = std::move(items), .flavor = left.flavor});
}

// text * n and list * n; nullopt when the operands are of other types.
std::optional<Value> repeat(Sandbox& sandbox, const Value& repeated, const Value& times) {
  const auto integer = times.as_integer();
  if (!integer || (!repeated.is_text() && !is_list_or_tuple(repeated))) return std::nullopt;
  const auto count = static_cast<uint64_t>(std::max<int64_t>(0, *integer));
  uint64_t total = 0;
  if (const Text* text = repeated.text()) {
    if (__builtin_mul_overflow(count, text->bytes.size(), &total)) total = UINT64_MAX;
    sandbox.check_text_size(total);
    std::string bytes;
    bytes.reserve(total);
    for (uint64_t i = 0; i < count && !text->bytes.empty(); ++i) bytes += text->bytes;
    return sandbox.text(std::move(bytes), text->is_markup);
  }
  const Sequence& sequence = *repeated.sequence();
  if (__builtin_mul_overflow(count, sequence.items.size(), &total)) total = UINT64_MAX;
  sandbox.check_item_count(total);
  std::vector<Value> items;
  items.reserve(total);
  for (uint64_t i = 0; i < count && !sequence.items.empty(); ++i) {
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return sandbox.sequence({.items = std::move(items), .flavor = sequence.flavor});
}

}  // namespace

Value binary(Sandbox& sandbox, BinaryOp op, const Value& left, const Value& right) {
  if (op == BinaryOp::modulo && left.is_text()) return format_percent(sandbox, left, right);
  require_defined(sandbox, left);
  require_defined(sandbox, right);
  if (left.is_number() && right.is_number()) {
    const auto a = left.as_integer();
    const auto b = right.as_integer();
    if (a && b) return integer_binary(sandbox, op, *a, *b);
    return float_binary(
        sandbox, op, static_cast<double>(left.as_number()), static_cast<double>(right.as_number()));
  }
  if (op == BinaryOp::add) {
    if (left.is_text() && right.is_text()) return add_texts(sandbox, *left.text(), *right.text());
    if (is_list_or_tuple(left) && is_list_or_tuple(right) &&
        left.sequence()->flavor == right.sequence()->flavor) {
      return add_sequences(sandbox, *left.sequence(), *right.sequence());
    }
  }
  if (op == BinaryOp::multiply) {
    if (auto repeated = repeat(sandbox, left, right)) return *repeated;
    if (auto repeated = repeat(sandbox, right, left)) return *repeated;
  }
  sandbox.fail(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'",
                           symbol(op),
                           type_name(left),
                           type_name(right)));
}

Value negate(Sandbox& sandbox, const Value& operand) {
  require_defined(sandbox, operand);
  if (operand.is_float()) return Value(-operand.as_float());
  if (const auto integer = operand.as_integer()) {
    return integer_binary(sandbox, BinaryOp::subtract, 0, *integer);
  }
  sandbox.fail(fmt::format("bad operand type for unary -: '{}'", type_name(operand)));
}

Value posit(Sandbox& sandbox, const Value& operand) {
  require_defined(sandbox, operand);
  if (operand.is_float()) return operand;
  if (const auto integer = operand.as_integer()) return Value(*integer);
  sandbox.fail(fmt::format("bad operand type for unary +: '{}'", type_name(operand)));
}

namespace {

// Compares two values of one ordered type: -1, 0 or 1; 2 means unordered (NaN).
int order(Sandbox& sandbox, Comparison asked, const Value& left, const Value& right) {
  require_defined(sandbox, left);
  require_defined(sandbox, right);
  if (left.is_number() && right.is_number()) {
    const long double x = left.as_number();
    const long double y = right.as_number();
    if (std::isnan(x) || std::isnan(y)) return 2;
    return x < y ? -1 : x > y ? 1 : 0;
  }
  if (left.is_text() && right.is_text()) {
    // Texts are compared as UTF-8 bytes, which have the same order as the code points.
    sandbox.charge_scan(std::min(left.text()->bytes.size(), right.text()->bytes.size()));
    const int order = left.text()->bytes.compare(right.text()->bytes);
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (is_list_or_tuple(left) && is_list_or_tuple(right) &&
      left.sequence()->flavor == right.sequence()->flavor) {
    const auto& a = left.sequence()->items;
    const auto& b = right.sequence()->items;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!compare(sandbox, Comparison::equal, a[i], b[i])) {
        return order(sandbox, asked, a[i], b[i]);
      }
    }
    return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  }
  static constexpr std::array<std::string_view, 6> kSymbols = {"==", "!=", "<", "<=", ">", ">="};
  sandbox.fail(fmt::format("'{}' not supported between instances of '{}' and '{}'",
                           kSymbols[static_cast<size_t>(asked)],
                           type_name(left),
                           type_name(right)));
}

}  // namespace

bool compare(Sandbox& sandbox, Comparison comparison, const Value& left, const Value& right) {
  sandbox.charge();
  switch (comparison) {
    case Comparison::equal:
    case Comparison::not_equal: {
      sandbox.charge(std::min(extent_of(left).weight, extent_of(right).weight));
      return equals(left, right) == (comparison == Comparison::equal);
    }
    case Comparison::in:
      return contains(sandbox, right, left);
    case Comparison::not_in:
      return !contains(sandbox, right, left);
    default:
      break;
  }
  const int result = order(sandbox, comparison, left, right);
  switch (comparison) {
    case Comparison::less:
      return result == -1;
    case Comparison::less_equal:
      return result == -1 || result == 0;
    case Comparison::greater:
      return result == 1;
    default:
      return result == 1 || result == 0;
  }
}

bool contains(Sandbox& sandbox, const Value& container, const Value& item) {
  if (const Text* text = container.text()) {
    if (!item.is_text()) {
      require_defined(sandbox, item);
      sandbox.fail(
          fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
    }
    sandbox.charge_scan(text->bytes.size());
    return unicode::find(text->bytes, item.text()->bytes) != std::string_view::npos;
  }
  if (const Dict* dict = container.dict()) {
    if (!is_hashable(item)) sandbox.fail(fmt::format("unhashable type: '{}'", type_name(item)));
    sandbox.charge_walk(item);
    return dict->find(item) != nullptr;
  }
  const auto is_item = [&](const Value& other) {
    return compare(sandbox, Comparison::equal, item, other);
  };
  if (const Sequence* sequence = container.sequence()) {
    return std::any_of(sequence->items.begin(), sequence->items.end(), is_item);
  }
  if (!is_iterable(container)) {
    sandbox.fail(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  }
  const auto items = iterate(sandbox, container);
  return std::any_of(items.begin(), items.end(), is_item);
}

}  // namespace reprise::chat_template
