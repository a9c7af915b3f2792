#include <fmt/format.h>

#include <array>

#include "reprise/chat_template/builtins.h"
#include "reprise/chat_template/element_access.h"
#include "reprise/chat_template/operators.h"
#include "reprise/chat_template/python_text.h"
#include "reprise/chat_template/text_methods.h"

/// The tests of jinja2: `value is defined`, `value is in list`, ...
namespace reprise::chat_template {
namespace {

template <bool (*holds)(const Value&)>
Value test(Sandbox&, const Value& subject, const Bound&) {
  return Value(holds(subject));
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is_bool(); }
bool is_true(const Value& value) { return value.is_bool() && value.as_bool(); }
bool is_false(const Value& value) { return value.is_bool() && !value.as_bool(); }
bool is_integer(const Value& value) { return value.is_int(); }
bool is_float(const Value& value) { return value.is_float(); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is_text(); }
bool is_mapping(const Value& value) { return value.dict() != nullptr; }
bool is_callable(const Value& value) { return value.callable() != nullptr || value.is_undefined(); }
bool is_markup(const Value& value) { return value.is_text() && value.text()->is_markup; }
bool is_loop_or_iterable(const Value& value) {
  return value.loop() != nullptr || is_iterable(value);
}

// Python counts a value with len() and [] as a sequence: dicts and undefined are sequences, views
// are not.
bool is_sequence(const Value& value) {
  const Sequence* sequence = value.sequence();
  return value.is_text() || value.dict() != nullptr || value.is_undefined() ||
         (sequence != nullptr && !sequence->is_view());
}

template <int64_t remainder>
Value has_parity(Sandbox& sandbox, const Value& subject, const Bound&) {
  const Value rest = binary(sandbox, BinaryOp::modulo, subject, Value(int64_t{2}));
  return Value(equals(rest, Value(remainder)));
}

Value divisible_by(Sandbox& sandbox, const Value& subject, const Bound& args) {
  return Value(equals(binary(sandbox, BinaryOp::modulo, subject, args[0]), Value(int64_t{0})));
}

template <Comparison comparison>
Value compares(Sandbox& sandbox, const Value& subject, const Bound& args) {
  return Value(compare(sandbox, comparison, subject, args[0]));
}

Value same_as(Sandbox&, const Value& subject, const Bound& args) {
  if (subject.kind() != args[0].kind()) return Value(false);
  if (subject.identity() != nullptr) return Value(subject.identity() == args[0].identity());
  return Value(equals(subject, args[0]));
}

template <bool is_upper>
Value has_case(Sandbox& sandbox, const Value& subject, const Bound&) {
  const Builtin* method = find_text_method(is_upper ? "isupper" : "islower");
  return call(sandbox, *method, to_text(sandbox, subject), {});
}

template <const Builtin* (*find)(std::string_view)>
Value exists(Sandbox& sandbox, const Value& subject, const Bound&) {
  if (!is_hashable(subject)) sandbox.fail("unhashable type");
  return Value(subject.is_text() && find(subject.text()->bytes) != nullptr);
}

constexpr auto kTests = std::to_array<Builtin>({
    {"!=", "other", 1, compares<Comparison::not_equal>},
    {"<", "other", 1, compares<Comparison::less>},
    {"<=", "other", 1, compares<Comparison::less_equal>},
    {"==", "other", 1, compares<Comparison::equal>},
    {">", "other", 1, compares<Comparison::greater>},
    {">=", "other", 1, compares<Comparison::greater_equal>},
    {"boolean", "", 0, test<is_boolean>},
    {"callable", "", 0, test<is_callable>},
    {"defined", "", 0, test<is_defined>},
    {"divisibleby", "num", 1, divisible_by},
    {"eq", "other", 1, compares<Comparison::equal>},
    {"equalto", "other", 1, compares<Comparison::equal>},
    {"escaped", "", 0, test<is_markup>},
    {"even", "", 0, has_parity<0>},
    {"false", "", 0, test<is_false>},
    {"filter", "", 0, exists<find_filter>},
    {"float", "", 0, test<is_float>},
    {"ge", "other", 1, compares<Comparison::greater_equal>},
    {"greaterthan", "other", 1, compares<Comparison::greater>},
    {"gt", "other", 1, compares<Comparison::greater>},
    {"in", "seq", 1, compares<Comparison::in>},
    {"integer", "", 0, test<is_integer>},
    {"iterable", "", 0, test<is_loop_or_iterable>},
    {"le", "other", 1, compares<Comparison::less_equal>},
    {"lessthan", "other", 1, compares<Comparison::less>},
    {"lower", "", 0, has_case<false>},
    {"lt", "other", 1, compares<Comparison::less>},
    {"mapping", "", 0, test<is_mapping>},
    {"ne", "other", 1, compares<Comparison::not_equal>},
    {"none", "", 0, test<is_none>},
    {"number", "", 0, test<is_number>},
    {"odd", "", 0, has_parity<1>},
    {"sameas", "other", 1, same_as},
    {"sequence", "", 0, test<is_sequence>},
    {"string", "", 0, test<is_string>},
    {"test", "", 0, exists<find_test>},
    {"true", "", 0, test<is_true>},
    {"undefined", "", 0, test<is_undefined>},
    {"upper", "", 0, has_case<true>},
});

}  // namespace

const Builtin* find_test(std::string_view name) { return find_in(kTests, name); }

}  // namespace reprise::chat_template
